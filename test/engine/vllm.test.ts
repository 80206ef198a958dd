import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../src/engine/port-owner.ts";
import { type EngineOptions, VllmEngine } from "../../src/engine/vllm.ts";
import { AglError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { fakePython, type FakeEngineScript } from "../helpers/fake-engine.ts";
import { isAlive, processesWith, until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const base = { path: "/models/version_0", name: "version_0" };
const engines: VllmEngine[] = [];
let number = 0;

async function engineWith(
  script: FakeEngineScript,
  options: Partial<EngineOptions> = {},
): Promise<VllmEngine> {
  number += 1;
  const engine = new VllmEngine({
    python: await fakePython(folder, `python-${number}`, script),
    profile: "cpu",
    modelName: "small",
    maxModelLen: 512,
    folder: join(folder, `engine-${number}`),
    logFile: join(folder, `vllm-${number}.log`),
    log: silentLogger,
    startTimeoutMs: 5_000,
    probeTimeoutMs: 5_000,
    stopGraceMs: 200,
    ...options,
  });
  engines.push(engine);
  return engine;
}

async function failureOf(work: Promise<unknown>): Promise<AglError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.stop()));
});

describe("a start", () => {
  test("ends ready on a private socket, and the socket is gone after the stop", async () => {
    const engine = await engineWith({});
    await engine.start(base);
    expect(engine.state).toBe("ready");
    const { unixSocket } = engine.address;
    expect(existsSync(unixSocket as string)).toBe(true);
    await engine.stop();
    expect(engine.state).toBe("stopped");
    expect(existsSync(unixSocket as string)).toBe(false);
  });

  // The folder that takes the place of a path too long for a socket must still be there when the server binds.
  test("in a folder whose path is too long for a socket ends ready all the same", async () => {
    const engine = await engineWith({}, { folder: join(folder, "x".repeat(150), "engine") });
    await engine.start(base);
    expect(engine.state).toBe("ready");
    const { unixSocket } = engine.address;
    await engine.stop();
    expect(existsSync(join(unixSocket as string, ".."))).toBe(false);
  });

  test("pins where sampling defaults come from and how tool calls are read, and listens on TCP only when a port is given", async () => {
    const port = freePort();
    const engine = await engineWith(
      {},
      { port, toolCallParser: "llama3_json", extraArguments: ["--seed", "5"] },
    );
    await engine.start(base);
    expect(engine.address).toEqual({ origin: `http://127.0.0.1:${port}` });
    const { args } = (await (await fetch(`http://127.0.0.1:${port}/weights`)).json()) as { args: string[] };
    const line = args.join(" ");
    // O17
    expect(line).toContain("--generation-config vllm");
    expect(line).toContain("--enable-auto-tool-choice --tool-call-parser llama3_json");
    expect(line).toContain(`--host 127.0.0.1 --port ${port}`);
    expect(line).toContain("--max-model-len 512");
    expect(line).toContain("--seed 5");
  });

  // O40
  test("that dies says the true cause and where the log is, and nothing is left running", async () => {
    const noise = Array.from({ length: 40 }, (_, index) => `INFO step ${index}`);
    const engine = await engineWith({
      prints: [
        ...noise,
        "ERROR 11-29 10:00:00 [w.py:3] ValueError: head size 7 is not supported",
        ...noise,
        "RuntimeError: Engine core initialization failed.",
      ],
      exits: 1,
    });
    const error = await failureOf(engine.start(base));
    expect(error.message).toBe(
      "vLLM ended at its start (exit code 1): ValueError: head size 7 is not supported",
    );
    expect(error.remedy).toContain("vllm-");
    expect(engine.state).toBe("failed");
  });

  test("that never becomes ready ends at its limit", async () => {
    const engine = await engineWith({ silent: true, stubborn: true }, { startTimeoutMs: 300 });
    expect((await failureOf(engine.start(base))).message).toContain("was not ready after 0.3 s");
  });

  // O39
  test("with a healthy port that never generates fails", async () => {
    const engine = await engineWith({ hangs: true }, { probeTimeoutMs: 300 });
    expect((await failureOf(engine.start(base))).message).toContain("is healthy but does not generate");
  });

  test("with an engine that gives no token ids fails", async () => {
    const engine = await engineWith({ withoutIds: true });
    expect((await failureOf(engine.start(base))).message).toContain("without token ids");
  });

  test("does not take another server's model for ours", async () => {
    const engine = await engineWith({ lists: "foreign" });
    expect((await failureOf(engine.start(base))).message).toContain("it lists foreign, not small");
  });

  test("that is cancelled leaves nothing running and can be repeated", async () => {
    const engine = await engineWith({ silent: true });
    const controller = new AbortController();
    const starting = engine.start(base, controller.signal);
    setTimeout(() => controller.abort(new AglError("cancelled", "stopped")), 100);
    expect((await failureOf(starting)).message).toBe("stopped");
    expect(engine.state).toBe("failed");
  });
});

describe("a ready engine", () => {
  test("swaps weights without a restart", async () => {
    const engine = await engineWith({});
    await engine.start(base);
    await engine.swap({ path: "/models/version_1", name: "version_1" });
    const answer = await fetch("http://engine/weights", { unix: engine.address.unixSocket as string });
    expect(await answer.json()).toMatchObject({ weights: "/models/version_1" });
  });

  test("says so when it cannot swap", async () => {
    const engine = await engineWith({ refusesReload: true });
    await engine.start(base);
    const error = await failureOf(engine.swap({ path: "/models/version_1", name: "version_1" }));
    expect(error.message).toContain("/collective_rpc answered 500: no such method");
    expect(engine.state).toBe("ready");
  });

  test("sleeps, and wakes with other weights in the order that gives the right answers", async () => {
    const engine = await engineWith({});
    await engine.start(base);
    await engine.sleep();
    expect(engine.state).toBe("sleeping");
    await engine.wake({ path: "/models/version_1", name: "version_1" });
    expect(engine.state).toBe("ready");
    const answer = await fetch("http://engine/weights", { unix: engine.address.unixSocket as string });
    expect(await answer.json()).toMatchObject({
      weights: "/models/version_1",
      calls: [
        "/sleep?level=2",
        "/wake_up?tags=weights",
        "/collective_rpc",
        "/wake_up?tags=kv_cache",
        "/reset_prefix_cache",
      ],
    });
  });

  test("that refuses to sleep says why and goes on serving", async () => {
    const engine = await engineWith({ refusesSleep: true });
    await engine.start(base);
    expect((await failureOf(engine.sleep())).message).toContain(
      "/sleep?level=2 answered 400: sleep mode is not enabled",
    );
    expect(engine.state).toBe("ready");
    await engine.swap({ path: "/models/version_1", name: "version_1" });
  });

  test("that cannot be woken says why, and may be stopped and started", async () => {
    const engine = await engineWith({ refusesWake: "kv_cache" });
    await engine.start(base);
    await engine.sleep();
    expect((await failureOf(engine.wake(base))).message).toContain("CUDA out of memory");
    expect(engine.state).toBe("sleeping");
    await engine.stop();
    await engine.start(base);
    expect(engine.state).toBe("ready");
  });

  test("that dies asleep ends nothing, and may be started again", async () => {
    const engine = await engineWith({ diesAsleep: true });
    await engine.start(base);
    const deaths: AglError[] = [];
    engine.onDeath((error) => deaths.push(error));
    await engine.sleep();
    await until("its end is seen", () => engine.state === "failed");
    expect(deaths).toEqual([]);
    expect((await failureOf(engine.wake(base))).message).toContain("it is failed, and cannot wake");
    await engine.start(base);
    expect(engine.state).toBe("ready");
  });

  test("that is not ready neither sleeps nor wakes", async () => {
    const engine = await engineWith({});
    expect((await failureOf(engine.sleep())).message).toContain("it is stopped, and cannot sleep");
    await engine.start(base);
    expect((await failureOf(engine.wake(base))).message).toContain("it is ready, and cannot wake");
  });

  test("that dies is reported once with its cause, and may be started again", async () => {
    const engine = await engineWith({ prints: ["torch.OutOfMemoryError: too little memory"] });
    await engine.start(base);
    const deaths: AglError[] = [];
    engine.onDeath((error) => deaths.push(error));
    const logFile = join(folder, `vllm-${number}.log`);
    expect(readFileSync(logFile, "utf8")).toContain("OutOfMemoryError");
    const server = processesWith(join(folder, `engine-${number}`, "engine.sock"));
    expect(server).not.toEqual([]);
    for (const pid of server) process.kill(pid, "SIGKILL");
    await until("the death is reported", () => deaths.length === 1);
    expect(deaths[0]?.message).toContain("ended while serving");
    expect(deaths[0]?.message).toContain("too little memory");
    await engine.start(base);
    expect(engine.state).toBe("ready");
  });

  test("that ignores SIGTERM is killed after its grace", async () => {
    const engine = await engineWith({ stubborn: true });
    await engine.start(base);
    const pids = processesWith(join(folder, `engine-${number}`, "engine.sock"));
    expect(pids).not.toEqual([]);
    await engine.stop();
    expect(pids.filter(isAlive)).toEqual([]);
  });
});
