import type { OpenExchange, ServerRequest } from "./exchange.ts";
import { HttpConnection } from "./http-connection.ts";
import { PendingAnswer } from "./pending-answer.ts";
import { type Destination, destinationOf, requestText } from "./request-text.ts";

/** vLLM's web server closes connections that were idle for 5 s: they are not used for a request that late. */
const maxIdleMs = 4_000;
/** More are closed as soon as they are idle. */
const maxIdlePerServer = 256;

/** Kept-alive HTTP/1.1 connections to servers on this machine. */
export class LoopbackConnections {
  readonly #idle = new Map<string, HttpConnection[]>();
  #sweeper: Timer | undefined;
  #isClosed = false;

  send(url: string, request: ServerRequest): OpenExchange {
    const pending = new PendingAnswer();
    try {
      this.#send(destinationOf(url, request.unix), request, pending);
    } catch (error) {
      pending.fail(error);
    }
    return pending;
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    const idle = [...this.#idle.values()].flat();
    this.#idle.clear();
    for (const connection of idle) connection.close();
  }

  #send(destination: Destination, request: ServerRequest, pending: PendingAnswer): void {
    const text = requestText(destination, request);
    const connect = () => this.#connect(destination, pending, text);
    const idle = this.#take(destination.key);
    if (idle === undefined) connect();
    // A server may close an idle connection at any moment; a request that met that was never looked at.
    else idle.send(text, pending, connect);
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
    const connection = this.#idle.get(key)?.pop();
    if (connection === undefined || connection.idleMs < maxIdleMs) return connection;
    // It was the newest one.
    connection.close();
    this.#sweep();
    return undefined;
  }

  #keep(key: string, connection: HttpConnection): void {
    const connections = this.#idle.get(key) ?? [];
    if (this.#isClosed || connections.length >= maxIdlePerServer) return connection.close();
    connections.push(connection);
    this.#idle.set(key, connections);
    this.#sweeper ??= setInterval(() => this.#sweep(), maxIdleMs).unref();
  }

  #forget(key: string, connection: HttpConnection): void {
    const connections = this.#idle.get(key);
    const at = connections?.indexOf(connection) ?? -1;
    if (at !== -1) connections?.splice(at, 1);
  }

  #sweep(): void {
    for (const [key, connections] of this.#idle) {
      const isOld = ({ idleMs }: HttpConnection) => idleMs >= maxIdleMs;
      const old = connections.filter(isOld);
      if (old.length === connections.length) this.#idle.delete(key);
      for (const connection of old) connection.close();
    }
    if (this.#idle.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }
}
