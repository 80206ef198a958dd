import type { SpanNode } from "./span-tree.ts";

/** Finds the nodes that were open all the time another one ran, without looking at all the others. */
export class EnclosingSpans {
  /** By start. */
  readonly #nodes: SpanNode[];
  /** A heap-like tree over them: the latest end in each half, quarter and so on. */
  readonly #latestEnds: number[];
  readonly #leaves: number;

  constructor(nodes: readonly SpanNode[]) {
    this.#nodes = nodes
      .filter(({ start, end }) => Number.isFinite(start) && Number.isFinite(end))
      .sort((one, other) => one.start - other.start);
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.max(1, this.#nodes.length)));
    this.#latestEnds = Array.from({ length: 2 * this.#leaves }, () => -Infinity);
    for (const [index, { end }] of this.#nodes.entries()) this.#latestEnds[this.#leaves + index] = end;
    for (let index = this.#leaves - 1; index > 0; index -= 1) {
      this.#latestEnds[index] = Math.max(this.#endAt(2 * index), this.#endAt(2 * index + 1));
    }
  }

  *around({ start, end }: SpanNode): Generator<SpanNode> {
    const waiting = [1];
    for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
      if (this.#endAt(index) < end || this.#firstStart(index) > start) continue;
      if (index >= this.#leaves) yield this.#nodes[index - this.#leaves] as SpanNode;
      else waiting.push(2 * index + 1, 2 * index);
    }
  }

  #endAt(index: number): number {
    return this.#latestEnds[index] ?? -Infinity;
  }

  #firstStart(index: number): number {
    let leaf = index;
    while (leaf < this.#leaves) leaf *= 2;
    return this.#nodes[leaf - this.#leaves]?.start ?? Infinity;
  }
}
