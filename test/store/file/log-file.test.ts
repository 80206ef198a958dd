import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { soon } from "../../helpers/soon.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

test("a log that cannot be opened fails the writes that wait for it instead of the process", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = openStore({ path });
  rmSync(`${path}-wal`);
  const refused = await soon(store.enqueueRollouts([{ input: 1 }]).catch((error: Error) => error.message));
  expect(refused).toStartWith("the store file could not be synced: ENOENT");
  await store.close();
});
