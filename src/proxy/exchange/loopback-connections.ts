import type { Destination } from "./destination.ts";
import { HttpConnection } from "./http-connection.ts";
import { PendingAnswer } from "./pending-answer.ts";
import type { SentRequest, ServerRequest } from "./post.ts";
import { requestText } from "./request-text.ts";

export interface LoopbackConnectionsOptions {
  /** vLLM's web server closes connections that were idle for 5 s: none is used for a request that late. */
  maxIdleMs?: number;
  /** More of them are closed as soon as they are idle. */
  maxIdlePerServer?: number;
}

interface IdleConnection {
  connection: HttpConnection;
  since: number;
}

/**
 * Kept-alive HTTP/1.1 connections to servers on this machine: as many as there are requests, and some that wait for the
 * next one. A request is sent once: one that meets the end of its connection fails, for the server may have begun it.
 */
export class LoopbackConnections {
  readonly #maxIdleMs: number;
  readonly #maxIdlePerServer: number;
  /** By server, in the order in which they were used last. */
  readonly #idle = new Map<string, IdleConnection[]>();
  #sweeper: Timer | undefined;
  #isClosed = false;

  constructor({ maxIdleMs = 4_000, maxIdlePerServer = 256 }: LoopbackConnectionsOptions = {}) {
    this.#maxIdleMs = maxIdleMs;
    this.#maxIdlePerServer = maxIdlePerServer;
  }

  send(destination: Destination, request: ServerRequest): SentRequest {
    const pending = new PendingAnswer();
    try {
      const text = requestText(destination, request);
      const idle = this.#take(destination.key);
      if (idle === undefined) this.#connect(destination, pending, text);
      else idle.send(text, pending);
    } catch (error) {
      pending.fail(error);
    }
    return pending;
  }

  /** Those in use are closed when they are not any more. */
  close(): void {
    this.#isClosed = true;
    this.#sweep(0);
  }

  #connect(destination: Destination, pending: PendingAnswer, request: string | Uint8Array): void {
    const { key } = destination;
    HttpConnection.open(destination, {
      onIdle: (connection) => this.#keep(key, connection),
      onClosed: (connection) => this.#forget(key, connection),
    }).then(
      (connection) => (pending.isOver ? this.#keep(key, connection) : connection.send(request, pending)),
      (error) => pending.fail(error),
    );
  }

  #take(key: string): HttpConnection | undefined {
    const idle = this.#idle.get(key)?.pop();
    if (idle === undefined || performance.now() - idle.since < this.#maxIdleMs) return idle?.connection;
    idle.connection.close();
    return undefined;
  }

  #keep(key: string, connection: HttpConnection): void {
    const idle = this.#idle.get(key) ?? [];
    if (this.#isClosed || idle.length >= this.#maxIdlePerServer) return connection.close();
    idle.push({ connection, since: performance.now() });
    this.#idle.set(key, idle);
    this.#sweeper ??= setInterval(() => this.#sweep(this.#maxIdleMs), this.#maxIdleMs).unref();
  }

  #forget(key: string, closed: HttpConnection): void {
    const idle = this.#idle.get(key);
    const at = idle?.findIndex(({ connection }) => connection === closed) ?? -1;
    if (at !== -1) idle?.splice(at, 1);
  }

  /** Closes what has been idle for as long. */
  #sweep(idleMs: number): void {
    const now = performance.now();
    // Taken out first: a connection says at once that it is closed.
    const old: IdleConnection[] = [];
    for (const [key, idle] of this.#idle) {
      const fresh = idle.findIndex(({ since }) => now - since < idleMs);
      old.push(...idle.splice(0, fresh === -1 ? idle.length : fresh));
      if (idle.length === 0) this.#idle.delete(key);
    }
    for (const { connection } of old) connection.close();
    if (this.#idle.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }
}
