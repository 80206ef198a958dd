import { expect, test } from "bun:test";
import fc from "fast-check";
import { attemptStatuses, rolloutStatuses } from "../../src/protocol/enums.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { storeRequests } from "../helpers/store-requests.ts";

const members = (
  "input mode resources_id config metadata worker_id rollouts limit offset rollout_ids timeout " +
  "status last_heartbeat_time heartbeat_stats max_attempts status_in rollout_id_in " +
  "rollout_id_contains filter_logic sort_by sort_order name rollout_id attempt_id " +
  "trace_id_contains spans resource_type endpoint model attributes events links context resource " +
  "sequence_id start_time retry_condition"
).split(" ");
const words = [
  ...rolloutStatuses,
  ...attemptStatuses,
  ..."latest search asc desc or and start_time duration worker_id llm train 3 -1 1e400 NaN % __proto__".split(
    " ",
  ),
  "\u0000",
  "\ud800",
];
const word = fc.oneof(fc.constantFrom(...words), fc.string());
const number = fc.oneof(
  fc.constantFrom("0", "-1", "1.0", "0.5", "NaN", "-Infinity", "1e400", "9007199254740993", "-1e9"),
  fc.integer().map(String),
);
const scalar = fc.oneof(
  number,
  word.map((text) => JSON.stringify(text)),
  fc.constantFrom("null", "true"),
);

/** JSON as text, made of what the protocol knows and what it does not. */
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 3 }).map((items) => `[${items.join()}]`),
    fc
      .array(fc.tuple(fc.constantFrom(...members), tie("value")), { maxLength: 6 })
      .map((entries) => `{${entries.map(([name, item]) => `${JSON.stringify(name)}:${item}`).join()}}`),
  ),
}));

const paths = (
  "/queues/rollouts/enqueue /queues/rollouts/dequeue /rollouts /rollouts/search /rollouts/RO " +
  "/rollouts/RO/attempts /rollouts/RO/attempts/search /rollouts/RO/attempts/latest /resources " +
  "/resources/rs /spans /spans/search /spans/next /spans/next/batch /spans/batch /workers/search /workers/w"
).split(" ");
const post = fc.tuple(fc.constantFrom(...paths), value);
const changedSpan = fc.tuple(
  fc.constantFrom(...Object.keys(sampleSpan({ rollout_id: "", attempt_id: "" }))),
  value,
);
const parameter = fc
  .tuple(fc.constantFrom(...members), word)
  .map(([name, text]) => `${name}=${encodeURI(text.toWellFormed())}`);
const lists = ["/rollouts", "/rollouts/RO/attempts", "/resources", "/spans", "/workers"];
const query = fc.tuple(fc.constantFrom(...lists), fc.array(parameter, { maxLength: 5 }));

// Section 1.4: what a client sends is answered or refused; a failure would be ours.
test("no request makes the store fail, and it stays readable", async () => {
  const requests = storeRequests();
  const { rollout_id, attempt } = await requests.store.startRollout({ input: 1, worker_id: "w" });
  const ids = { rollout_id, attempt_id: attempt.attempt_id };
  const pathOf = (path: string) => path.replace("RO", rollout_id);
  const isAnswered = async (asked: ReturnType<typeof requests.get>) => {
    const { status, body } = await asked;
    expect([200, 201, 400, 404, 422]).toContain(status);
    if (status >= 400) expect(body).toHaveProperty("detail");
    else expect(body).toBeDefined();
  };
  await fc.assert(
    fc.asyncProperty(post, changedSpan, query, async ([path, body], [member, other], [list, parameters]) => {
      await isAnswered(requests.post(pathOf(path), body));
      const span = JSON.stringify(sampleSpan(ids)).slice(0, -1);
      await isAnswered(requests.post("/spans", `${span},${JSON.stringify(member)}:${other}}`));
      await isAnswered(requests.get(`${pathOf(list)}?${parameters.join("&")}`));
    }),
    { numRuns: 400 },
  );
  for (const list of ["/rollouts", `/rollouts/${rollout_id}/attempts`, "/resources", "/workers"]) {
    expect((await requests.get(list)).status).toBe(200);
  }
  expect((await requests.post("/spans/search", { rollout_id })).status).toBe(200);
}, 60_000);
