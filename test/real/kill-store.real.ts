import { expect, test } from "bun:test";
import { join } from "node:path";
import { killAgainAndAgain } from "../helpers/kill-store.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

test("a store that is killed fifty times under load loses nothing that it acknowledged", async () => {
  const acknowledged = await killAgainAndAgain(join(temporaryFolder(), "agl.db"), 50);
  expect(acknowledged).toBeGreaterThan(1_000);
}, 600_000);
