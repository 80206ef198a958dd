import { LoadConnection } from "./load-connection.ts";

export function openConnections(port: number, count: number): Promise<LoadConnection[]> {
  return Promise.all(Array.from({ length: count }, () => LoadConnection.open(port)));
}

/** Runs `work` for each item, at most as many at a time as there are connections. */
export async function overConnections<Item>(
  connections: readonly LoadConnection[],
  items: Iterable<Item>,
  work: (connection: LoadConnection, item: Item) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  await Promise.all(
    connections.map(async (connection) => {
      for (let next = iterator.next(); !next.done; next = iterator.next()) await work(connection, next.value);
    }),
  );
}

export function closeAll(connections: readonly LoadConnection[]): void {
  for (const connection of connections) connection.close();
}

export function* numbersBelow(count: number): Generator<number> {
  for (let number = 0; number < count; number += 1) yield number;
}
