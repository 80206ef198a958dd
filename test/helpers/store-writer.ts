import { openStore } from "../../src/store/sqlite-store.ts";

/**
 * A process that opens the store file of its first argument and enqueues until it is killed. It prints
 * `open`, or the error's message, and then each rollout id after its acknowledgement.
 */
const path = process.argv[2]!;
try {
  const store = openStore({ path });
  console.log("open");
  const write = async (writer: number) => {
    for (let input = 0; ; input += 1) {
      const [rollout] = await store.enqueueRollouts([{ input: { writer, input } }]);
      console.log(rollout!.rollout_id);
    }
  };
  if (process.argv[3] === "write") await Promise.all([1, 2, 3, 4].map(write));
  else setInterval(() => {}, 1000);
} catch (error) {
  console.log((error as Error).message);
}
