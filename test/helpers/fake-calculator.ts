/** An MCP server over stdio with the one tool `calculate`, which adds; `wrong` as first argument makes it err. */
const wrong = process.argv.includes("wrong");

interface Request {
  id?: number;
  method: string;
  params?: { arguments?: { expression?: string }; protocolVersion?: string };
}

function answer({ method, params }: Request): unknown {
  if (method === "initialize") {
    const serverInfo = { name: "calculator", version: "1" };
    return { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
  }
  if (method === "tools/list") return { tools: [{ name: "calculate", inputSchema: { type: "object" } }] };
  const sum = (params?.arguments?.expression ?? "")
    .split("+")
    .reduce((total, part) => total + Number(part), 0);
  return { content: [{ type: "text", text: String(wrong ? sum + 1 : sum) }], isError: false };
}

if (import.meta.main) {
  for await (const line of console) {
    const request = JSON.parse(line) as Request;
    if (request.id === undefined) continue;
    console.log(JSON.stringify({ jsonrpc: "2.0", id: request.id, result: answer(request) }));
  }
}
