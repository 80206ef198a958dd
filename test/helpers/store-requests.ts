import { createStoreApp } from "../../src/server/store-app.ts";
import type { StoreAppOptions } from "../../src/server/store-app.ts";
import { memoryStore } from "./memory-store.ts";

export interface Answer {
  status: number;
  body: any;
  text: string;
  headers: Headers;
}

/** The API over a store in memory, asked without a port. A string body is sent as it is. */
export function storeRequests(options: StoreAppOptions = {}) {
  const store = memoryStore();
  const app = createStoreApp(store, options);
  const send = async (method: string, path: string, body?: unknown, headers = {}): Promise<Answer> => {
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    const init = { method, headers: { "content-type": "application/json", ...headers } };
    const response = await app.request(path, text === undefined ? init : { ...init, body: text });
    const answer = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") ?? false;
    return {
      status: response.status,
      body: isJson && answer !== "" ? JSON.parse(answer) : undefined,
      text: answer,
      headers: response.headers,
    };
  };
  return {
    store,
    send,
    get: (path: string) => send("GET", `/v1/agl${path}`),
    post: (path: string, body?: unknown, headers = {}) => send("POST", `/v1/agl${path}`, body, headers),
  };
}
