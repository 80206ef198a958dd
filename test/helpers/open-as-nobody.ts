import { AglError } from "../../src/errors.ts";
import { openStore } from "../../src/store/sqlite-store.ts";

/** A process that opens the store file of its first argument as a user without rights, and prints what came of it. */
if (process.getuid!() === 0) {
  process.setgid!(65_534);
  process.setuid!(65_534);
}
try {
  const store = openStore({ path: process.argv[2]! });
  await store.enqueueRollouts([{ input: 1 }]);
  await store.close();
  console.log(JSON.stringify({ opened: true }));
} catch (error) {
  const { message, remedy } = error as AglError;
  console.log(JSON.stringify({ opened: false, expected: error instanceof AglError, message, remedy }));
}
