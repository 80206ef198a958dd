import { messageOf } from "../errors.ts";

const limitMs = 20_000;

/** What has to be stopped at the end, in the reverse order of its start; one that fails or hangs does not keep the others. */
export class Shutdown {
  readonly #steps: { name: string; stop: () => Promise<void> }[] = [];

  add(name: string, stop: () => Promise<void>): void {
    this.#steps.push({ name, stop });
  }

  async run(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      const { name, stop } = step;
      const ended = stop().catch((error: unknown) => {
        process.stderr.write(`warning: stopping the ${name}: ${messageOf(error)}\n`);
      });
      await Promise.race([ended, Bun.sleep(limitMs)]);
    }
  }
}
