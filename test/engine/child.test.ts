import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { childEnvironment } from "../../src/engine/child-environment.ts";
import { describeExit, spawnGuarded } from "../../src/engine/child.ts";
import { isAlive, until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const env = childEnvironment();

/** Starts a family: a child in the group, one in a session of its own, one that ignores SIGTERM, and an orphan. */
const family = `
  sleep 300 & echo "pid $!"
  setsid sh -c 'echo "pid $$"; sleep 300' &
  sh -c 'trap "" TERM; echo "pid $$"; while :; do sleep 1; done' &
  sh -c 'setsid sleep 300 & echo "pid $!"' &
  wait`;

async function startFamily(run: (onLine: (line: string) => void) => void): Promise<number[]> {
  const pids: number[] = [];
  run((line) => {
    if (line.startsWith("pid ")) pids.push(Number(line.slice(4)));
  });
  await until("four processes", () => pids.length === 4);
  return pids;
}

describe("a guarded child", () => {
  test("is told apart by lines, and everything it prints is in the log file", async () => {
    const logFile = join(folder, "lines.log");
    const lines: string[] = [];
    const child = spawnGuarded(["sh", "-c", "echo out; echo err >&2; printf 'no newline'"], {
      env,
      logFile,
      onLine: (line, stream) => lines.push(`${stream} ${line}`),
    });
    expect(await child.exited).toMatchObject({ code: 0, signal: null, stopped: false });
    expect(lines.toSorted()).toEqual(["stderr err", "stdout no newline", "stdout out"].toSorted());
    expect(readFileSync(logFile, "utf8")).toContain("no newline\n");
    expect(child.tail()).toContain("err");
  });

  test("gets the bytes written to its stdin", async () => {
    const lines: string[] = [];
    const child = spawnGuarded(["head", "-n", "1"], { env, onLine: (line) => lines.push(line) });
    child.write("a job\n");
    await child.exited;
    expect(lines).toEqual(["a job"]);
  });

  test("reports its exit code and the signal that ended it", async () => {
    expect(describeExit(await spawnGuarded(["sh", "-c", "exit 7"], { env }).exited)).toBe("exit code 7");
    expect(describeExit(await spawnGuarded(["sh", "-c", "kill -KILL $$"], { env }).exited)).toBe(
      "signal SIGKILL",
    );
  });

  test("takes all of its descendants along when it is stopped, also those that ignore SIGTERM or left its session", async () => {
    let stop = async () => {};
    const pids = await startFamily((onLine) => {
      const child = spawnGuarded(["sh", "-c", family], { env, onLine, graceMs: 200 });
      stop = async () => void (await child.stop());
    });
    await stop();
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("dies with a parent that is killed by SIGKILL", async () => {
    const program = join(folder, "parent.ts");
    const source = join(import.meta.dir, "../../src/engine/child.ts");
    await Bun.write(
      program,
      `import { spawnGuarded } from ${JSON.stringify(source)};
       spawnGuarded(["sh", "-c", ${JSON.stringify(family)}], { env: process.env, graceMs: 200, onLine: (line) => console.log(line) });`,
    );
    const parent = Bun.spawn([process.execPath, program], { env, stdout: "pipe", stderr: "inherit" });
    const pids = await startFamily((onLine) => {
      void (async () => {
        let text = "";
        for await (const chunk of parent.stdout) {
          const lines = (text + new TextDecoder().decode(chunk)).split("\n");
          text = lines.pop() ?? "";
          lines.forEach(onLine);
        }
      })();
    });
    parent.kill("SIGKILL");
    await until("no descendant is left", () => pids.every((pid) => !isAlive(pid)), 5_000);
  });
});

describe("a child's environment", () => {
  test("keeps what finds programs, proxies, certificates, models and devices, and nothing else", () => {
    const environment = childEnvironment(
      { EXTRA: "1" },
      {
        PATH: "/bin",
        HTTPS_PROXY: "http://proxy:1",
        SSL_CERT_FILE: "/ca",
        HF_TOKEN: "t",
        CUDA_VISIBLE_DEVICES: "0",
        LD_LIBRARY_PATH: "/lib",
        AGL_TOKEN: "secret",
        AWS_SECRET_ACCESS_KEY: "secret",
        PYTHONDONTWRITEBYTECODE: "1",
        BUN_OPTIONS: "--preload x",
      },
    );
    expect(environment).toMatchObject({
      PATH: "/bin",
      HTTPS_PROXY: "http://proxy:1",
      SSL_CERT_FILE: "/ca",
      HF_TOKEN: "t",
      CUDA_VISIBLE_DEVICES: "0",
      LD_LIBRARY_PATH: "/lib",
      EXTRA: "1",
    });
    for (const name of ["AGL_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONDONTWRITEBYTECODE", "BUN_OPTIONS"]) {
      expect(environment).not.toHaveProperty(name);
    }
  });

  test("never sends loopback through a proxy, and keeps the user's own exceptions", () => {
    expect(childEnvironment({}, { no_proxy: "example.org" })["NO_PROXY"]).toBe(
      "example.org,127.0.0.1,localhost,::1",
    );
  });
});

test("a stop is one SIGTERM, and tool servers in sessions of their own live until their owner has ended", async () => {
  const lines: string[] = [];
  const program = `
    const server = Bun.spawn(["setsid", "sleep", "300"]);
    let signals = 0;
    process.on("SIGTERM", async () => {
      signals += 1;
      await Bun.sleep(100);
      console.log("signals " + signals + ", server alive " + (server.exitCode === null && server.signalCode === null));
      process.exit(0);
    });
    console.log("pid " + server.pid);
    setInterval(() => {}, 1000);`;
  const child = spawnGuarded([process.execPath, "-e", program], {
    env,
    graceMs: 2_000,
    onLine: (line) => lines.push(line),
  });
  await until("the server is started", () => lines.length === 1);
  await child.stop();
  expect(lines[1]).toBe("signals 1, server alive true");
  expect(isAlive(Number(lines[0]?.slice(4)))).toBe(false);
});
