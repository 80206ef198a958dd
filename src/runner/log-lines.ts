/** Lines of one burst sent together; only the last of a long burst are kept. */
export class LogLines {
  static readonly kept = 50;
  static readonly maxLineLength = 2_000;
  readonly #send: (key: number | undefined, lines: string[]) => void;
  readonly #waiting = new Map<number | undefined, string[]>();
  #scheduled = false;

  constructor(send: (key: number | undefined, lines: string[]) => void) {
    this.#send = send;
  }

  add(key: number | undefined, text: string): void {
    const lines = this.#waiting.get(key) ?? [];
    this.#waiting.set(key, lines);
    for (const line of text.replace(/\n$/, "").split("\n")) keepLine(lines, line);
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.flush());
  }

  flush(): void {
    this.#scheduled = false;
    for (const [key, lines] of this.#waiting) this.#send(key, lines);
    this.#waiting.clear();
  }
}

/** Adds a line, cut to a bounded length, and drops the oldest beyond the bound. */
export function keepLine(lines: string[], line: string): void {
  lines.push(line.slice(0, LogLines.maxLineLength));
  if (lines.length > LogLines.kept) lines.shift();
}
