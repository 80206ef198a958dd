/** The least that a proxy on Bun can do, as a process of its own: hands a call on, and the answer back, unread. */
const target = process.argv[2] ?? "";

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  development: false,
  reusePort: false,
  async fetch(request) {
    const { headers } = request;
    const url = target + new URL(request.url).pathname;
    const answer = await fetch(url, { method: "POST", headers, body: await request.text() });
    return new Response(answer.body, {
      status: answer.status,
      headers: { "content-type": answer.headers.get("content-type") ?? "application/json" },
    });
  },
});
console.log(`listening: ${server.url}`);

export {};
