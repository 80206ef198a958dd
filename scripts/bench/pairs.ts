/**
 * Both sides in turn, A B B A A B …, after one unmeasured turn of each: what slows the machine down for a while
 * hits both. Returns the pairs in the order in which they were measured.
 */
export async function interleave<Measured>(
  pairs: number,
  first: () => Promise<Measured>,
  second: () => Promise<Measured>,
): Promise<[Measured, Measured][]> {
  await first();
  await second();
  const measured: [Measured, Measured][] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    if (pair % 2 === 0) {
      const one = await first();
      measured.push([one, await second()]);
    } else {
      const other = await second();
      measured.push([await first(), other]);
    }
  }
  return measured;
}
