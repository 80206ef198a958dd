import { Hono } from "hono";

/**
 * The request ceiling: the store's framework, and a handler that parses the JSON body and does nothing with it. The
 * root answers what it got, for round trips.
 */
const app = new Hono();
app.post("/", async (c) => c.json(await c.req.json()));
app.post("*", async (c) => {
  const bytes = await c.req.arrayBuffer();
  if (bytes.byteLength > 0) JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  return c.body("{}", 200, { "content-type": "application/json" });
});
app.get("*", (c) => c.body("{}", 200, { "content-type": "application/json" }));

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: Number(process.argv[2] ?? 0),
  fetch: app.fetch,
  idleTimeout: 0,
  development: false,
  reusePort: false,
});
console.log(`listening: ${server.url}`);
