export interface Random {
  /** At least 0, below 1. */
  next(): number;
  /** An integer at least 0, below `bound`. */
  integer(bound: number): number;
  /** A shuffled copy. */
  shuffle<Item>(items: readonly Item[]): Item[];
}

/** xoshiro128**: the same seed gives the same numbers on every machine. */
export function createRandom(seed: number): Random {
  const state = seedState(seed);
  const next = () => nextWord(state) / 2 ** 32;
  const integer = (bound: number) => Math.floor(next() * bound);
  return { next, integer, shuffle: (items) => shuffled(items, integer) };
}

function shuffled<Item>(items: readonly Item[], integer: (bound: number) => number): Item[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last -= 1) {
    const other = integer(last + 1);
    [copy[last], copy[other]] = [copy[other] as Item, copy[last] as Item];
  }
  return copy;
}

/** Splitmix32 over both halves of the seed, so that neighbouring seeds have nothing in common. */
function seedState(seed: number): Uint32Array {
  let word = (seed >>> 0) ^ Math.imul(Math.floor(seed / 2 ** 32), 0x9e3779b9);
  return Uint32Array.from({ length: 4 }, () => {
    word = (word + 0x9e3779b9) | 0;
    let mixed = word ^ (word >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return mixed ^ (mixed >>> 15);
  });
}

function nextWord(state: Uint32Array): number {
  let [a = 0, b = 0, c = 0, d = 0] = state;
  const result = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0;
  const carried = b << 9;
  c ^= a;
  d ^= b;
  b ^= c;
  a ^= d;
  c ^= carried;
  d = rotate(d, 11);
  state.set([a, b, c, d]);
  return result;
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}
