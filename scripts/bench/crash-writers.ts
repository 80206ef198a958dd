import { openConnections } from "./connections.ts";
import { newSpanId, spanBody } from "./span-bodies.ts";

export interface CrashResult {
  rollouts: string[];
  spans: { rolloutId: string; spanId: string }[];
  finished: string[];
}

/** Starts rollouts, adds spans and finishes them until the server dies; returns what it acknowledged. */
export async function writeUntilDeath(job: { port: number; writers: number }): Promise<CrashResult> {
  const connections = await openConnections(job.port, job.writers);
  const acknowledged: CrashResult = { rollouts: [], spans: [], finished: [] };
  const write = async (connection: (typeof connections)[number]) => {
    for (let input = 0; ; input += 1) {
      const started = await connection.json("POST", "/v1/agl/rollouts", { input });
      const [rolloutId, attemptId] = [started.rollout_id, started.attempt.attempt_id];
      acknowledged.rollouts.push(rolloutId);
      for (let sequenceId = 1; sequenceId <= 3; sequenceId += 1) {
        const spanId = newSpanId();
        const name = "openai.chat.completion";
        const body = spanBody({ rolloutId, attemptId, sequenceId, spanId, name, attributes: '{"a":1}' });
        const { status } = await connection.post("/v1/agl/spans", body);
        if (status === 201) acknowledged.spans.push({ rolloutId, spanId });
      }
      const path = `/v1/agl/rollouts/${rolloutId}/attempts/${attemptId}`;
      await connection.json("POST", path, { status: "succeeded" });
      acknowledged.finished.push(rolloutId);
    }
  };
  await Promise.allSettled(connections.map(write));
  return acknowledged;
}
