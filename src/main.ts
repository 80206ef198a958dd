import { version } from "../package.json" with { type: "json" };

/** They hold a proxy, or many attempts at once. */
const manyRequestCommands = ["allinone", "algo", "dev", "proxy", "runners", "__runners"];

const [command, ...rest] = process.argv.slice(2);
if (command === "--version" || command === "-V") {
  console.log(version);
} else if (command === "__guard") {
  const { runGuard } = await import("./engine/guard.ts");
  process.exit(await runGuard(Number(rest[0]), rest.slice(1)));
} else {
  if (command !== undefined && manyRequestCommands.includes(command)) {
    const { allowManyRequests } = await import("./many-requests.ts");
    allowManyRequests(process.argv.slice(2));
  }
  const { runCli } = await import("./cli.ts");
  // Whoever reads our output may leave; a run goes on without being watched.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  // Nothing that was forgotten, a timer or a connection, may keep an ended command alive.
  process.exit(await runCli(process.argv.slice(2)));
}
