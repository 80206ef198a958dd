import { afterEach, expect, test } from "bun:test";
import type { ByteReceiver, ByteSource } from "../../src/chat/byte-source.ts";
import { SentStream } from "../../src/proxy/sent-stream.ts";
import { until } from "../helpers/processes.ts";

class ManualSource implements ByteSource {
  receiver!: ByteReceiver;
  isCancelled = false;

  start(receiver: ByteReceiver): void {
    this.receiver = receiver;
  }

  cancel(): void {
    this.isCancelled = true;
  }

  give(text: string): unknown {
    return this.receiver.bytes(new TextEncoder().encode(text));
  }
}

let server: Bun.Server<undefined> | undefined;
afterEach(() => server?.stop(true));

/** Serves what the source gives; `early` is given before the answer is sent, and then the end, if it is early, too. */
function serve(source: ManualSource, early: string[], endsEarly = false): URL {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    development: false,
    fetch() {
      const stream = new SentStream().of(source);
      for (const text of early) source.give(text);
      if (endsEarly) source.receiver.end();
      return new Response(stream);
    },
  });
  return server.url;
}

test("what came early and what came later is sent in its order, and then the end", async () => {
  const source = new ManualSource();
  const answer = await fetch(serve(source, ["one,"]));
  source.give("two,");
  source.give("three");
  source.receiver.end();
  expect(await answer.text()).toBe("one,two,three");
});

test("an end that came early is told behind the bytes", async () => {
  expect(await (await fetch(serve(new ManualSource(), ["all"], true))).text()).toBe("all");
});

test("an error breaks the answer off, behind the bytes", async () => {
  const source = new ManualSource();
  const answer = await fetch(serve(source, ["one"]));
  const reader = answer.body!.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe("one");
  source.receiver.end(new Error("broken"));
  await expect((async () => await reader.read())()).rejects.toThrow();
});

test("a reader that leaves ends the source, which may go on without harm", async () => {
  const source = new ManualSource();
  const caller = new AbortController();
  const answer = await fetch(serve(source, ["one"]), { signal: caller.signal });
  await answer.body!.getReader().read();
  caller.abort();
  await until("the source is cancelled", () => source.isCancelled);
  expect(source.give("two")).toBeUndefined();
  source.receiver.end();
});

test("a reader that does not read holds the source until it does", async () => {
  const source = new ManualSource();
  const url = serve(source, ["one"]);
  let received = 0;
  const socket = await Bun.connect({
    hostname: url.hostname,
    port: Number(url.port),
    socket: { data: (_, bytes) => void (received += bytes.length) },
  });
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("the answer has begun", () => received > 0);
  socket.pause();
  const part = "x".repeat(1 << 20);
  let wait: unknown;
  let given = 0;
  while (wait === undefined && given < 64) {
    wait = source.give(part);
    given += 1;
    await Bun.sleep(1);
  }
  expect(given).toBeLessThan(64);
  socket.resume();
  await wait;
  await until("all has come", () => received > given * part.length);
  socket.terminate();
});
