import { expect, test } from "bun:test";
import { checkPort } from "../../src/commands/ports.ts";
import { freePort, portOwner } from "../../src/engine/port-owner.ts";
import { until } from "../helpers/processes.ts";

test("a taken port is refused with the pid and the command that holds it", async () => {
  const port = freePort();
  const holder = Bun.spawn(
    [
      process.execPath,
      "-e",
      `Bun.serve({hostname: "127.0.0.1", port: ${port}, fetch: () => new Response("ok")})`,
      "--api-key",
      "sk-1",
    ],
    { stdout: "ignore" },
  );
  try {
    await until("the port is held", () => portOwner(port) !== undefined);
    expect(portOwner(port)?.pid).toBe(holder.pid);
    expect(portOwner(port)?.command).not.toContain("sk-1");
    expect(() => checkPort("store.port", port)).toThrow(
      `store.port: port ${port} is taken by pid ${holder.pid} (`,
    );
  } finally {
    holder.kill();
    await holder.exited;
  }
});

test("a free port is accepted", () => {
  const port = freePort();
  expect(portOwner(port)).toBeUndefined();
  expect(() => checkPort("store.port", port)).not.toThrow();
});
