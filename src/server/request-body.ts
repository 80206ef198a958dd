import type { Context } from "hono";
import { StoreRequestError, messageOf } from "../errors.ts";
import { parseJson } from "../protocol/json.ts";

/** Of a query; the address as a whole is limited to 16 KiB by the server. */
const maxQueryParameters = 500;

export class BodyTooLarge extends Error {
  constructor(maxBodyBytes: number) {
    super(`The request body is larger than ${maxBodyBytes} bytes`);
  }
}

/** The body's bytes, at most so many. */
export async function readBytes(c: Context, maxBodyBytes: number): Promise<Uint8Array> {
  if (Number(c.req.header("content-length") ?? 0) > maxBodyBytes) throw new BodyTooLarge(maxBodyBytes);
  const bytes = await c.req.arrayBuffer();
  if (bytes.byteLength > maxBodyBytes) throw new BodyTooLarge(maxBodyBytes);
  return new Uint8Array(bytes);
}

/** The JSON body; undefined when there is none, whatever its content type says (W-8). */
export async function readBody(c: Context, maxBodyBytes: number): Promise<unknown> {
  const bytes = await readBytes(c, maxBodyBytes);
  if (bytes.byteLength === 0) return undefined;
  try {
    return parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    const detail = { type: "json_invalid", loc: ["body", 0], msg: "JSON decode error", input: {} };
    throw new StoreRequestError(422, [{ ...detail, ctx: { error: messageOf(error) } }]);
  }
}

/** Query parameters: the named ones as lists, of the others the last value. */
export function readQuery(c: Context, lists: readonly string[] = []): Record<string, unknown> {
  const entries = Object.entries(c.req.queries());
  const count = entries.reduce((sum, [, values]) => sum + values.length, 0);
  if (count > maxQueryParameters) {
    const detail = `The query has ${count} parameters and may have ${maxQueryParameters}: send longer lists as JSON to the search route`;
    throw new StoreRequestError(400, detail);
  }
  return Object.fromEntries(
    entries.map(([name, values]) => [name, lists.includes(name) ? values : values.at(-1)]),
  );
}
