import { expect, test } from "bun:test";
import { join } from "node:path";
import { killAgainAndAgain } from "../../helpers/kill-store.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

test("a store that is killed under load loses nothing that it acknowledged", async () => {
  const acknowledged = await killAgainAndAgain(join(temporaryFolder(), "agl.db"), 5);
  expect(acknowledged).toBeGreaterThan(20);
}, 60_000);
