import { expect, test } from "bun:test";
import fc from "fast-check";
import { connectStore } from "../../src/client/http-store.ts";
import type { AttemptStatus } from "../../src/protocol/enums.ts";
import type { NumberRequest } from "../../src/protocol/store-api.ts";
import { createStoreApp } from "../../src/server/store-app.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { storeRequests } from "../helpers/store-requests.ts";

test("many numbers in one request continue each rollout's own, in the order of the request", async () => {
  const { post, store } = storeRequests();
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const ours = { rollout_id, attempt_id: attempt.attempt_id };
  await post("/spans/next", ours);
  const nobody = { rollout_id: "ro-none", attempt_id: "at-none" };
  const { status, body } = await post("/spans/next/batch", { spans: [ours, nobody, ours] });
  expect(status).toBe(200);
  expect(body).toEqual({
    spans: [
      { sequence_id: 2, ended_at: null },
      { sequence_id: 1, ended_at: null },
      { sequence_id: 3, ended_at: null },
    ],
  });
});

test("a number comes with the end of its attempt: its own, or the start of the one that followed", async () => {
  const { post, store } = storeRequests();
  const { rollout_id, attempt: first } = await store.startRollout({ input: 1 });
  const second = (await store.startAttempt(rollout_id)).attempt;
  const third = (await store.startAttempt(rollout_id)).attempt;
  await store.updateAttempt(rollout_id, third.attempt_id, { status: "succeeded" });
  const { end_time } = (await store.queryAttempts(rollout_id)).items[2]!;
  const spans = [first, second, third].map(({ attempt_id }) => ({ rollout_id, attempt_id }));
  const { body } = await post("/spans/next/batch", { spans });
  const ends = body.spans.map((span: { ended_at: number | null }) => span.ended_at);
  expect(ends).toEqual([second.start_time, third.start_time, end_time]);
});

test.each([[{}], [{ spans: [{}] }], [{ spans: [{ rollout_id: "ro", attempt_id: 1 }] }]])(
  "%j is refused",
  async (body) => {
    expect((await storeRequests().post("/spans/next/batch", body)).status).toBe(422);
  },
);

test("without the route the client asks one by one, and says the same", async () => {
  const statuses: AttemptStatus[] = ["running", "succeeded", "failed", "timeout", "unresponsive"];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.constantFrom(...statuses), { minLength: 1, maxLength: 3 }), {
        minLength: 1,
        maxLength: 3,
      }),
      fc.array(fc.nat(), { maxLength: 6 }),
      async (rollouts, chosen) => {
        const store = memoryStore();
        const app = createStoreApp(store);
        const attempts: NumberRequest[] = [{ rollout_id: "ro-none", attempt_id: "at-none" }];
        for (const states of rollouts) {
          const { rollout_id, attempt } = await store.startRollout({ input: null });
          for (const [index, status] of states.entries()) {
            const { attempt_id } = index === 0 ? attempt : (await store.startAttempt(rollout_id)).attempt;
            await store.updateAttempt(rollout_id, attempt_id, { status });
            attempts.push({ rollout_id, attempt_id });
          }
        }
        const requests = chosen.map((index) => attempts[index % attempts.length]!);
        const asked: string[] = [];
        const client = connectStore("http://store", {
          fetch: async (url, init) => {
            const { pathname } = new URL(url);
            asked.push(pathname);
            if (pathname.endsWith("/spans/next/batch")) return new Response(null, { status: 404 });
            return await app.request(pathname, init as RequestInit);
          },
        });
        const oneByOne = await client.nextSequenceIds(requests);
        const together = await store.nextSequenceIds(requests);
        expect(oneByOne.map(({ ended_at }) => ended_at)).toEqual(together.map(({ ended_at }) => ended_at));
        // The second time, each number is higher by as many as its rollout got the first time.
        const perRollout = Map.groupBy(requests, ({ rollout_id }) => rollout_id);
        requests.forEach(({ rollout_id }, index) => {
          const step = perRollout.get(rollout_id)?.length ?? 0;
          expect(together[index]?.sequence_id).toBe((oneByOne[index]?.sequence_id ?? 0) + step);
        });
        await client.nextSequenceIds(requests);
        expect(asked.filter((path) => path.endsWith("/batch")).length).toBeLessThanOrEqual(1);
      },
    ),
    { numRuns: 40 },
  );
});
