/**
 * Many streams through a proxy, as a process of its own.
 *
 *     bun stream-client.ts BASE_URL STREAMS CONCURRENCY
 *
 * Every other stream is left after two events. Prints how many there were of each kind.
 */
const [baseUrl = "", streams = "0", concurrency = "1"] = process.argv.slice(2);
const counts = { completed: 0, left: 0, failed: 0, peak: 0 };
let streaming = 0;
let next = 0;

async function readStream(leaves: boolean): Promise<void> {
  const controller = new AbortController();
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "agent-model",
      stream: true,
      max_tokens: 20,
      messages: [{ role: "user", content: "Hi ".repeat(100) }],
    }),
    signal: controller.signal,
  });
  streaming += 1;
  counts.peak = Math.max(counts.peak, streaming);
  try {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true });
      if (leaves && text.split("\n\n").length > 2) break;
    }
    controller.abort();
    if (leaves) counts.left += 1;
    else if (response.status === 200 && text.endsWith("data: [DONE]\n\n")) counts.completed += 1;
    else counts.failed += 1;
  } finally {
    streaming -= 1;
  }
}

async function worker(): Promise<void> {
  while (next < Number(streams)) {
    const index = next++;
    try {
      await readStream(index % 2 === 1);
    } catch (error) {
      counts.failed += 1;
      if (counts.failed < 4) console.error(String(error));
    }
  }
}

await Promise.all(Array.from({ length: Number(concurrency) }, worker));
console.log(JSON.stringify(counts));

export {};
