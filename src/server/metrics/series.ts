interface Distribution {
  /** Values of the labels. */
  labels: readonly string[];
  /** How many fell between a bound and the one before it; the last has no bound. */
  buckets: number[];
  sum: number;
  count: number;
}

/** How observations are told: as a counter and a histogram, which share their labels. */
export interface Naming {
  counter: string;
  histogram: string;
  help: string;
  labels: readonly string[];
  /** Values of these labels, where they are not just those that were observed. */
  valuesOf?: (observed: readonly string[]) => readonly string[];
}

/** Observed durations by label values, for Prometheus' text format 0.0.4. */
export class Observations {
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Distribution>();

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(labels: readonly string[], seconds: number): void {
    const distribution = this.#at(labels);
    distribution.buckets[this.#bucketOf(seconds)]! += 1;
    distribution.sum += seconds;
    distribution.count += 1;
  }

  render({ counter, histogram, help, labels, valuesOf = (observed) => observed }: Naming): string[] {
    const series = [...this.#series.values()].map((distribution) => ({
      ...distribution,
      text: labelText(labels, valuesOf(distribution.labels)),
    }));
    return [
      ...header(counter, "counter", help),
      ...series.map(({ text, count }) => `${counter}{${text}} ${count}`),
      ...header(histogram, "histogram", `${help} In seconds.`),
      ...series.flatMap((each) => this.#histogramLines(histogram, each)),
    ];
  }

  #at(labels: readonly string[]): Distribution {
    const key = labels.join("\u0000");
    const found = this.#series.get(key);
    if (found !== undefined) return found;
    const buckets = Array<number>(this.#bounds.length + 1).fill(0);
    const made = { labels: [...labels], buckets, sum: 0, count: 0 };
    this.#series.set(key, made);
    return made;
  }

  #histogramLines(name: string, { text, buckets, sum, count }: Distribution & { text: string }): string[] {
    let below = 0;
    const lines = this.#bounds.map((bound, index) => {
      below += buckets[index]!;
      return `${name}_bucket{${text},le="${boundText(bound)}"} ${below}`;
    });
    lines.push(`${name}_bucket{${text},le="+Inf"} ${count}`);
    return [...lines, `${name}_count{${text}} ${count}`, `${name}_sum{${text}} ${sum}`];
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

function header(name: string, type: string, help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function labelText(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escaped(values[index] ?? "")}"`).join(",");
}

/** As Prometheus writes floats, and Python's client with it: `1e-06`, `0.001`, `1.0`. */
function boundText(bound: number): string {
  if (Number.isInteger(bound)) return `${bound}.0`;
  return bound < 1e-4 ? bound.toExponential().replace(/e-(\d)$/, "e-0$1") : String(bound);
}

function escaped(value: string): string {
  return value.replace(/[\\"\n]/g, (found) => (found === "\n" ? "\\n" : `\\${found}`));
}
