import { version } from "../package.json" with { type: "json" };

const [command, ...rest] = process.argv.slice(2);
if (command === "--version" || command === "-V") {
  console.log(version);
} else if (command === "__guard") {
  const { runGuard } = await import("./engine/guard.ts");
  process.exit(await runGuard(Number(rest[0]), rest.slice(1)));
} else {
  const { runCli } = await import("./cli.ts");
  process.exitCode = await runCli(process.argv.slice(2));
}
