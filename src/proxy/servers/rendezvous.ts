/**
 * Weighted rendezvous hashing: the same key goes to the same of the named items, each item gets keys in proportion to
 * its weight, and a change of the list moves only the keys of what has come, gone or changed its weight.
 */
export function rendezvous<Item extends { name: string; weight: number }>(
  key: string,
  items: readonly Item[],
): Item | undefined {
  // Mostly there is nothing to choose, and every call would pay for the hash.
  const [only] = items;
  if (items.length === 1 && only !== undefined) return only.weight > 0 ? only : undefined;
  let best: Item | undefined;
  let bestScore = 0;
  for (const item of items) {
    const score = item.weight / -Math.log(pointOf(`${item.name}\n${key}`));
    if (score <= bestScore) continue;
    best = item;
    bestScore = score;
  }
  return best;
}

/** Above 0 and below 1; the same in every process. */
function pointOf(text: string): number {
  const bits = Bun.hash.xxHash64(text) >> 11n;
  return (Number(bits) + 0.5) / 2 ** 53;
}
