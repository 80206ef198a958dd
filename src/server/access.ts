import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import { getPath } from "hono/utils/url";
import { hostName, isLoopbackHost } from "../web-names.ts";
import { isAllowedOrigin } from "./cors.ts";

export interface AccessRules {
  /** What every request has to show; undefined lets everybody in. */
  token?: string | undefined;
  /**
   * Names in `Host` that are answered beside those of loopback; undefined answers any. A web page whose name was
   * rebound to this machine sends its own.
   */
  hostNames?: readonly string[] | undefined;
  /** Origins whose web pages may change something. */
  corsOrigins: readonly string[];
}

/** The path without the token that some clients have to write before it, as one line that may stand in a log. */
export function pathBehindToken(request: Request): string {
  const path = getPath(request);
  const end = path.startsWith("/t/") ? path.indexOf("/", 3) : 0;
  const behind = end === -1 ? "/" : path.slice(end);
  // oxlint-disable-next-line no-control-regex
  return /[\x00-\x1f\x7f]/.test(behind) ? encodeURI(behind) : behind;
}

/** Turns away who must not come in, each with what to do about it. */
export function guard({ token, hostNames, corsOrigins }: AccessRules): MiddlewareHandler {
  const digest = token === undefined ? undefined : digestOf(token);
  return async (c, next) => {
    if (hostNames !== undefined && !isKnownHost(c.req.header("host"), hostNames)) return refuseHost(c);
    if (digest !== undefined && !showsToken(c, digest)) return refuseToken(c);
    if (isForeignWrite(c, corsOrigins)) return refuseOrigin(c);
    return await next();
  };
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Digests have one length, so that the comparison tells nothing about the token. */
function showsToken(c: Context, digest: Buffer): boolean {
  return shownTokens(c).some((shown) => timingSafeEqual(digestOf(shown), digest));
}

function shownTokens(c: Context): string[] {
  const shown: string[] = [];
  const header = c.req.header("authorization") ?? "";
  const bearer = /^bearer +(\S+) *$/i.exec(header)?.[1];
  if (bearer !== undefined) shown.push(bearer);
  const basic = /^basic +(\S+) *$/i.exec(header)?.[1];
  if (basic !== undefined) shown.push(passwordIn(basic));
  const inPath = tokenInPath(c.req.raw);
  if (inPath !== undefined) shown.push(inPath);
  return shown;
}

/** Of `user:password`; what programs send for `http://user:password@host`. */
function passwordIn(credentials: string): string {
  const text = Buffer.from(credentials, "base64").toString("utf8");
  return text.slice(text.indexOf(":") + 1);
}

function tokenInPath(request: Request): string | undefined {
  return /^\/t\/([^/]*)/.exec(getPath(request))?.[1];
}

function isKnownHost(host: string | undefined, known: readonly string[]): boolean {
  // Programs that send none are no browsers.
  if (host === undefined || host === "") return true;
  const name = nameIn(host);
  return name !== undefined && (isLoopbackHost(name) || known.includes(name));
}

function nameIn(host: string): string | undefined {
  try {
    return hostName(host.replace(/:\d*$/, ""));
  } catch {
    return undefined;
  }
}

/** A browser tells which page a request comes from; a page of elsewhere must not write here. */
function isForeignWrite(c: Context, corsOrigins: readonly string[]): boolean {
  if (c.req.method === "GET" || c.req.method === "OPTIONS" || c.req.method === "HEAD") return false;
  const origin = c.req.header("origin");
  if (origin === undefined || isAllowedOrigin(origin, corsOrigins)) return false;
  return !URL.canParse(origin) || new URL(origin).host !== c.req.header("host");
}

function refuseToken(c: Context): Response {
  const detail =
    shownTokens(c).length === 0
      ? "This store wants its token: send the header `Authorization: Bearer TOKEN`, or write /t/TOKEN before the path"
      : "The token is not this store's";
  return c.json({ detail }, 401, { "www-authenticate": 'Bearer realm="agl store"' });
}

function refuseHost(c: Context): Response {
  const detail = `This store is not reached as ${JSON.stringify(c.req.header("host"))}: use 127.0.0.1, or start it with --allowed-host NAME`;
  return c.json({ detail }, 403);
}

function refuseOrigin(c: Context): Response {
  const detail = `Web pages of ${JSON.stringify(c.req.header("origin"))} may not write here: start the store with --cors-origin ORIGIN`;
  return c.json({ detail }, 403);
}
