/**
 * Several sides in turn, forth and back: A B C, C B A, …, after one unmeasured turn of each: what slows the machine
 * down for a while hits all. Returns the rounds in the order in which they were measured.
 */
export async function rounds<Side extends string, Measured>(
  count: number,
  sides: readonly Side[],
  measure: (side: Side) => Promise<Measured>,
): Promise<Record<Side, Measured>[]> {
  for (const side of sides) await measure(side);
  const measured: Record<Side, Measured>[] = [];
  for (let round = 0; round < count; round += 1) {
    const results: [Side, Measured][] = [];
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      results.push([side, await measure(side)]);
    }
    measured.push(Object.fromEntries(results) as Record<Side, Measured>);
  }
  return measured;
}
