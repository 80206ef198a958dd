import { Database } from "bun:sqlite";

/**
 * A process that begins to read the store file of its first argument and stays in that one transaction until it
 * is told to stop. It prints the number of rollouts that it sees: at once, at the end, and after the transaction.
 */
const db = new Database(process.argv[2]!, { readonly: true });
const look = (when: string) =>
  console.log(when, db.query<{ n: number }, []>("SELECT count(*) AS n FROM rollouts").get()!.n);
const stopped = new Promise((resolve) => process.once("SIGTERM", resolve));
const alive = setInterval(() => {}, 1_000);
db.run("BEGIN");
look("at first");
await stopped;
look("at last");
db.run("COMMIT");
look("afterwards");
db.close();
clearInterval(alive);
