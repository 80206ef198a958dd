import { messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { AttemptedRollout, JsonObject, LlmResource, Span } from "../protocol/types.ts";
import {
  exceptionSpan,
  randomTraceId,
  rewardSpan,
  type SpanCore,
  type SpanFrame,
  spanOf,
  type ToolCallRecord,
  toolCallSpan,
} from "./attempt-spans.ts";
import { keepLine } from "./log-lines.ts";
import { flushRecording } from "./recording.ts";
import { type Failure, failed, type Verdict } from "./verdict.ts";

const flushLimitMs = 30_000;
const flushLimitWhenCancelledMs = 1_000;
const storedLogLines = 20;
/** Spans of an attempt that a store in trouble has not taken yet; what comes beyond them is lost and counted. */
const maxWaitingSpans = 4_096;

/** What is written of one attempt: its spans in order, then its outcome. */
export class AttemptRecord {
  readonly frame: SpanFrame;
  toolCalls = 0;
  readonly #rollout: AttemptedRollout;
  readonly #store: StoreApi;
  readonly #workerLabel: string;
  readonly #log: Logger;
  readonly #logLines: string[] = [];
  /** One after another, so that spans are numbered and written in the order they came. */
  #numbering: Promise<unknown> = Promise.resolve();
  #writing: Promise<void> = Promise.resolve();
  #waitingSpans = 0;
  #lostSpans = 0;

  constructor(rollout: AttemptedRollout, store: StoreApi, workerLabel: string, log: Logger) {
    this.#rollout = rollout;
    this.#store = store;
    this.#workerLabel = workerLabel;
    this.#log = log;
    this.frame = {
      rolloutId: rollout.rollout_id,
      attemptId: rollout.attempt.attempt_id,
      traceId: randomTraceId(),
    };
  }

  takeLog(lines: string[]): void {
    for (const line of lines) {
      keepLine(this.#logLines, line);
      this.#log.debug(line, { rollout: this.frame.rolloutId });
    }
  }

  /** Returns when the reward has its place in the order. */
  takeReward(value: number, time: number): Promise<void> {
    return this.#write((sequenceId) => rewardSpan(this.frame, sequenceId, value, time));
  }

  /** Returns when the call has its place in the order. */
  takeModelCall(call: SpanCore): Promise<void> {
    return this.#write((sequenceId) => spanOf(this.frame, sequenceId, call));
  }

  /** Returns when the call has its place in the order, so that it sorts before whatever follows from it. */
  async takeToolCall(call: ToolCallRecord): Promise<void> {
    this.toolCalls++;
    await this.#write((sequenceId) => toolCallSpan(this.frame, sequenceId, call));
  }

  /** Writes the last span and the status; returns what became of the attempt in the store. */
  async close(verdict: Verdict, llm: LlmResource | undefined): Promise<Verdict> {
    if (verdict.status === "none") return verdict;
    const cancelled = verdict.status !== "succeeded" && verdict.reason === "cancelled";
    const flushProblem = await this.#flush(llm, cancelled ? flushLimitWhenCancelledMs : flushLimitMs);
    await this.#writing;
    const stored = cancelled ? verdict : await this.#writeFinalSpan(verdict);
    try {
      await this.#updateAttempt(stored, flushProblem);
      return stored;
    } catch (error) {
      return failed("store_error", `the outcome was not stored: ${messageOf(error)}`);
    }
  }

  async #flush(llm: LlmResource | undefined, limitMs: number): Promise<string | null> {
    if (llm === undefined) return null;
    const problem = await flushRecording(llm, this.frame.rolloutId, this.frame.attemptId, limitMs);
    if (problem !== null) this.#log.warning(problem, { rollout: this.frame.rolloutId });
    return problem;
  }

  async #writeFinalSpan(verdict: Verdict): Promise<Verdict> {
    if (verdict.status === "succeeded" && verdict.reward === null) return verdict;
    const time = Date.now() / 1000;
    try {
      const sequenceId = await this.#nextSequenceId();
      await this.#store.addSpan(
        verdict.status === "succeeded"
          ? rewardSpan(this.frame, sequenceId, verdict.reward ?? 0, time)
          : exceptionSpan(this.frame, sequenceId, verdict.error, time),
      );
      return verdict;
    } catch (error) {
      this.#spanLost(error);
      if (verdict.status !== "succeeded") return verdict;
      return failed("store_error", `the reward was not stored: ${messageOf(error)}`);
    }
  }

  async #updateAttempt(verdict: Verdict, flushProblem: string | null): Promise<void> {
    if (verdict.status === "none") return;
    const notes: JsonObject = {
      ...(flushProblem === null ? {} : { recording: flushProblem }),
      ...(this.#lostSpans === 0 ? {} : { lost_spans: this.#lostSpans }),
      ...(verdict.status === "succeeded" ? {} : this.#failureNotes(verdict)),
    };
    const patch =
      Object.keys(notes).length === 0 ? {} : { metadata: { ...this.#rollout.attempt.metadata, ...notes } };
    const { rolloutId, attemptId } = this.frame;
    await this.#store.updateAttempt(rolloutId, attemptId, { status: verdict.status, ...patch });
  }

  #failureNotes({ reason, error }: Failure): JsonObject {
    return {
      reason,
      error: error.message,
      error_type: error.type,
      worker: this.#workerLabel,
      ...(this.#logLines.length === 0 ? {} : { log: this.#logLines.slice(-storedLogLines) }),
      ...(error.stderr === undefined || error.stderr.length === 0 ? {} : { stderr: error.stderr }),
    };
  }

  /** Returns when the span has its number; it is written later. */
  async #write(make: (sequenceId: number) => Span): Promise<void> {
    if (this.#waitingSpans >= maxWaitingSpans) {
      return this.#spanLost(new Error(`${maxWaitingSpans} spans wait for the store already`));
    }
    this.#waitingSpans++;
    const number = this.#nextSequenceId();
    this.#writing = this.#writing.then(async () => {
      try {
        await this.#store.addSpan(make(await number));
      } catch (error) {
        this.#spanLost(error);
      }
      this.#waitingSpans--;
    });
    await number.catch(() => {});
  }

  #spanLost(error: unknown): void {
    this.#lostSpans++;
    this.#log.warning("a span was not stored", { rollout: this.frame.rolloutId, error: messageOf(error) });
  }

  #nextSequenceId(): Promise<number> {
    const { rolloutId, attemptId } = this.frame;
    const number = this.#numbering.then(() => this.#store.nextSequenceId(rolloutId, attemptId));
    this.#numbering = number.catch(() => {});
    return number;
  }
}
