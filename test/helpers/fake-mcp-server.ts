/**
 * A small MCP server over stdio for tests: `fake-mcp-server.ts MODE`. Its tools: `add` {a, b} answers the sum,
 * `sleep` {seconds} answers late but lets others through, `hang` blocks the whole process, `die` exits in
 * mid-call, `fail` answers with an error, `pid` tells its process id, `environment` the names of its variables.
 */
const mode = process.argv[2] ?? "plain";
const text = (value: unknown, isError = false) => ({
  content: [{ type: "text", text: String(value) }],
  isError,
});

if (mode === "banner") process.stdout.write("Welcome to the fake server\nloading [###   ]\rloading [######]");
if (mode === "chatty") setInterval(() => process.stdout.write("still here\n"), 20);
if (mode === "stubborn") {
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
  setInterval(() => {}, 1000);
}
if (mode === "exits") {
  process.stderr.write("fake: no licence found\n");
  process.exit(3);
}

const tools = ["add", "sleep", "hang", "die", "fail", "pid", "environment"].map((name) => ({
  name,
  description: `The tool ${name}.`,
  inputSchema: {
    properties: { a: { type: "number" } },
    required: [],
    title: `${name}Arguments`,
    type: "object",
  },
}));

interface Request {
  id?: number;
  method: string;
  params?: { name?: string; arguments?: Record<string, number>; protocolVersion?: string };
}

async function answer({ method, params }: Request): Promise<unknown> {
  if (method === "initialize") {
    const serverInfo = { name: "fake", version: "1" };
    return { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
  }
  if (method === "ping") return {};
  if (method === "tools/list") return { tools };
  return callTool(params?.name, params?.arguments ?? {});
}

async function callTool(name: string | undefined, args: Record<string, number>): Promise<unknown> {
  switch (name) {
    case "add":
      return text((args["a"] ?? 0) + (args["b"] ?? 0));
    case "sleep":
      await Bun.sleep((args["seconds"] ?? 60) * 1000);
      return text("slept");
    case "hang":
      for (;;);
    case "die":
      process.stderr.write("fake: out of cheese\n");
      process.exit(1);
    case "fail":
      return text("it went wrong", true);
    case "environment":
      return text(Object.keys(process.env).toSorted().join(" "));
    default:
      return text(process.pid);
  }
}

async function take(line: string): Promise<void> {
  const request = JSON.parse(line) as Request;
  if (request.id === undefined || mode === "silent") return;
  const result = await answer(request);
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }) + "\n");
}

let rest = "";
for await (const chunk of Bun.stdin.stream()) {
  const lines = (rest + new TextDecoder().decode(chunk)).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) void take(line);
}
if (mode !== "stubborn") process.exit(0);

export {};
