export type Labels = Record<string, string>;

/** One metric in the text format 0.0.4; a counter, or a histogram over the bounds. */
abstract class Metric<Value> {
  readonly #name: string;
  readonly #help: string;
  readonly #labels: readonly string[];
  readonly #series = new Map<string, Value>();

  constructor(name: string, help: string, labels: readonly string[]) {
    this.#name = name;
    this.#help = help;
    this.#labels = labels;
  }

  protected abstract readonly type: string;
  protected abstract make(): Value;
  protected abstract samples(name: string, labels: string, value: Value): string[];

  /** The value of the series with these label values, in the order of the label names. */
  protected at(values: readonly string[]): Value {
    const key = values.join("\u0000");
    const found = this.#series.get(key);
    if (found !== undefined) return found;
    const made = this.make();
    this.#series.set(key, made);
    return made;
  }

  render(): string[] {
    const lines = [`# HELP ${this.#name} ${this.#help}`, `# TYPE ${this.#name} ${this.type}`];
    for (const [key, value] of this.#series) {
      const values = key.split("\u0000");
      const labels = this.#labels.map((label, index) => `${label}="${escaped(values[index] ?? "")}"`);
      lines.push(...this.samples(this.#name, labels.join(","), value));
    }
    return lines;
  }
}

export class Counter extends Metric<{ count: number }> {
  protected readonly type = "counter";

  increase(values: readonly string[]): void {
    this.at(values).count += 1;
  }

  protected make() {
    return { count: 0 };
  }

  protected samples(name: string, labels: string, { count }: { count: number }): string[] {
    return [`${name}{${labels}} ${count}`];
  }
}

interface Distribution {
  /** How many fell between a bound and the one before it; the last has no bound. */
  buckets: number[];
  sum: number;
  count: number;
}

export class Histogram extends Metric<Distribution> {
  protected readonly type = "histogram";
  readonly #bounds: readonly number[];

  constructor(name: string, help: string, labels: readonly string[], bounds: readonly number[]) {
    super(name, help, labels);
    this.#bounds = bounds;
  }

  observe(values: readonly string[], value: number): void {
    const distribution = this.at(values);
    distribution.buckets[this.#bucketOf(value)]! += 1;
    distribution.sum += value;
    distribution.count += 1;
  }

  protected make(): Distribution {
    return { buckets: Array<number>(this.#bounds.length + 1).fill(0), sum: 0, count: 0 };
  }

  protected samples(name: string, labels: string, { buckets, sum, count }: Distribution): string[] {
    let below = 0;
    const lines = this.#bounds.map((bound, index) => {
      below += buckets[index]!;
      return `${name}_bucket{${labels},le="${boundText(bound)}"} ${below}`;
    });
    lines.push(`${name}_bucket{${labels},le="+Inf"} ${count}`);
    return [...lines, `${name}_count{${labels}} ${count}`, `${name}_sum{${labels}} ${sum}`];
  }

  /** The first bound that is not below the value. */
  #bucketOf(value: number): number {
    let low = 0;
    let high = this.#bounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (value <= this.#bounds[middle]!) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/** As Prometheus writes floats, and Python's client with it: `1e-06`, `0.001`, `1.0`. */
function boundText(bound: number): string {
  if (Number.isInteger(bound)) return `${bound}.0`;
  return bound < 1e-4 ? bound.toExponential().replace(/e-(\d)$/, "e-0$1") : String(bound);
}

function escaped(value: string): string {
  return value.replace(/[\\"\n]/g, (found) => (found === "\n" ? "\\n" : `\\${found}`));
}
