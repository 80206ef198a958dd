import { createRandom } from "../../src/algorithm/random.ts";
import { closeAll, openConnections } from "./connections.ts";
import { planRollout, spansOf } from "./agent-plan.ts";
import type { AgentShape } from "./agent-plan.ts";
import { postRequest } from "./load-connection.ts";
import { flatAttributes, nestedAttributes, newSpanId, rewardAttributes, spanBody } from "./span-bodies.ts";
import type { AttributesText } from "./span-bodies.ts";
import { quantile } from "./statistics.ts";

export interface AttemptName {
  rolloutId: string;
  attemptId: string;
}

/** What a closed loop sends. */
export type Traffic =
  /** Spans of 20 attributes, about 2 KB each, `perRequest` of them in a request. */
  | { type: "spans"; perRequest: number; attempts: AttemptName[] }
  /** The requests of the published agent's rollouts, in their proportion. */
  | { type: "agent"; shape: AgentShape };

export interface ClosedLoopJob {
  port: number;
  connections: number;
  seconds: number;
  traffic: Traffic;
}

export interface ClosedLoopResult {
  requests: number;
  /** Bytes of the JSON bodies. */
  bytes: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  latenciesMs: number[];
}

type NextRequest = () => { request: string; bytes: number };

/** Every connection sends the next request as soon as it has an answer, for so many seconds. */
export async function closedLoop(job: ClosedLoopJob): Promise<ClosedLoopResult> {
  const next = requestsOf(job.traffic);
  const connections = await openConnections(job.port, job.connections);
  const latenciesMs: number[] = [];
  let bytes = 0;
  const started = performance.now();
  const end = started + job.seconds * 1000;
  await Promise.all(
    connections.map(async (connection) => {
      for (let sent = performance.now(); sent < end; sent = performance.now()) {
        const { request, bytes: bodyBytes } = next();
        const { status, body } = await connection.send(request);
        if (status >= 300) throw new Error(`the server answered ${status}: ${body.toString().slice(0, 300)}`);
        latenciesMs.push(performance.now() - sent);
        bytes += bodyBytes;
      }
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  closeAll(connections);
  const [p50Ms, p99Ms] = [quantile(latenciesMs, 0.5), quantile(latenciesMs, 0.99)];
  return { requests: latenciesMs.length, bytes, seconds, p50Ms, p99Ms, latenciesMs };
}

function requestsOf(traffic: Traffic): NextRequest {
  return traffic.type === "spans" ? spanRequests(traffic) : agentRequests(traffic.shape);
}

let attributePool: AttributesText[] | undefined;

/** 20 attributes, 2 KB of JSON with the rest of the span. */
export function twentyAttributes(): AttributesText[] {
  const random = createRandom(11);
  attributePool ??= Array.from({ length: 64 }, () => flatAttributes(random, 20, 60));
  return attributePool;
}

function spanRequests({ perRequest, attempts }: Traffic & { type: "spans" }): NextRequest {
  const attributes = twentyAttributes();
  let sent = 0;
  const span = () => {
    sent += 1;
    const { rolloutId, attemptId } = attempts[sent % attempts.length]!;
    return spanBody({
      rolloutId,
      attemptId,
      sequenceId: sent,
      spanId: newSpanId(),
      name: "openai.chat.completion",
      attributes: attributes[sent % attributes.length]!,
    });
  };
  return () => {
    const body =
      perRequest === 1 ? span() : `{"spans":[${Array.from({ length: perRequest }, span).join(",")}]}`;
    const path = perRequest === 1 ? "/v1/agl/spans" : "/v1/agl/spans/batch";
    return { request: postRequest(path, body), bytes: body.length };
  };
}

/** Made before the loop starts, so that the loop only sends. */
function agentRequests(shape: AgentShape): NextRequest {
  const random = createRandom(13);
  const small = ["/v1/agl/queues/rollouts/enqueue", "/v1/agl/queues/rollouts/dequeue", "/v1/agl/attempts"];
  const requests: { request: string; bytes: number }[] = [];
  for (let rollout = 0; rollout < 64; rollout += 1) {
    const ids = { rolloutId: "ro-0123456789ab", attemptId: "at-01234567" };
    const bodies = spansOf(planRollout(random, shape)).map(({ name, attributes: kind }, index) => {
      const attributes =
        kind === "none"
          ? "{}"
          : typeof kind === "object"
            ? rewardAttributes(kind.reward)
            : nestedAttributes(random);
      return spanBody({ ...ids, sequenceId: index + 1, spanId: newSpanId(), name, attributes });
    });
    for (const body of bodies)
      requests.push({ request: postRequest("/v1/agl/spans", body), bytes: body.length });
    for (const path of [...small, "/v1/agl/resources/one", "/v1/agl/spans/search"]) {
      const body = JSON.stringify({ rollout_id: ids.rolloutId, worker_id: "runner-1", status: "succeeded" });
      requests.push({ request: postRequest(path, body), bytes: body.length });
    }
  }
  const shuffled = random.shuffle(requests);
  let index = 0;
  return () => shuffled[(index += 1) % shuffled.length]!;
}
