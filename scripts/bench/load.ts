import { join } from "node:path";
import { childEnvironment } from "../../src/engine/child-environment.ts";
import type { Child, Children } from "./children.ts";
import type { JobAnswer, Jobs } from "./load-process.ts";

type JobOf<Name extends keyof Jobs> = Parameters<Jobs[Name]>[0];
type ResultOf<Name extends keyof Jobs> = Awaited<ReturnType<Jobs[Name]>>;

/** The parent's end of a load process. */
export class Load {
  readonly child: Child;
  readonly #subprocess: Bun.Subprocess;
  readonly #waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>();
  #jobs = 0;

  constructor(children: Children) {
    this.#subprocess = Bun.spawn([process.execPath, join(import.meta.dir, "load-process.ts")], {
      // Its own connections have no such limit, `fetch` has one of 256.
      env: childEnvironment({ BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" }),
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
      ipc: (answer: JobAnswer) => this.#settle(answer),
      onExit: () => this.#failAll(),
    });
    this.child = children.adopt(this.#subprocess);
  }

  run<Name extends keyof Jobs>(name: Name, job: JobOf<Name>): Promise<ResultOf<Name>> {
    this.#jobs += 1;
    const id = this.#jobs;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (result: unknown) => void, reject });
      this.#subprocess.send({ type: "run", id, name, job });
    });
  }

  /** Ends a job that would go on for ever. */
  stopJob(): void {
    this.#subprocess.send({ type: "stop" });
  }

  #settle(answer: JobAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if ("error" in answer) waiting?.reject(new Error(answer.error));
    else waiting?.resolve(answer.result);
  }

  #failAll(): void {
    for (const { reject } of this.#waiting.values()) reject(new Error("a load process ended"));
    this.#waiting.clear();
  }
}
