/** A hub that speaks as much of Hugging Face's API as fetching a model takes, with its faults. */
export interface FakeModel {
  files: Record<string, Uint8Array | string>;
  /** Only with this token. */
  token?: string;
  gated?: boolean;
  /** As the hub counts them. */
  parameters?: number;
}

export interface FakeHub {
  url: string;
  /** `GET /owner/name/resolve/…/model.safetensors bytes=100-` */
  requests: string[];
  /** Sends a large file in pieces, one each so many milliseconds, while it is not 0. */
  pieceMs: number;
  /** Answers to ranges with the whole file. */
  ignoresRanges: boolean;
  commit: string;
  stop(): Promise<void>;
}

const pieceBytes = 64 * 1024;
/** Larger files are kept in large file storage, as on the hub. */
const largeBytes = 10_000;
const invalidToken = { "x-error-message": "Invalid credentials in Authorization header" };

export function startFakeHub(models: Record<string, FakeModel>): FakeHub {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      hub.requests.push(`${request.method} ${pathname} ${request.headers.get("range") ?? ""}`.trim());
      const path = decodeURIComponent(pathname);
      if (path === "/api/models") return search(models, searchParams.get("search") ?? "");
      const route = /^(?:\/api\/models)?\/([^/]+\/[^/]+)(?:\/(refs|revision|tree|resolve)(?:\/(.*))?)?$/.exec(
        path,
      );
      const [, name = "", what = "", rest = ""] = route ?? [];
      const model = models[name];
      if (model === undefined) return refuse(404, "RepoNotFound");
      const bearer = request.headers.get("authorization");
      if (bearer === "Bearer hf_expired") return new Response(null, { status: 401, headers: invalidToken });
      if (model.gated && what === "resolve" && bearer !== `Bearer ${model.token}`)
        return refuse(401, "GatedRepo");
      if (!model.gated && model.token !== undefined && bearer !== `Bearer ${model.token}`)
        return refuse(401, "RepoNotFound");
      return answer(hub, request, name, model, what, rest);
    },
  });
  const hub: FakeHub = {
    url: `http://127.0.0.1:${server.port}`,
    requests: [],
    pieceMs: 0,
    ignoresRanges: false,
    commit: "c".repeat(40),
    stop: () => server.stop(true),
  };
  return hub;
}

function answer(hub: FakeHub, request: Request, name: string, model: FakeModel, what: string, rest: string) {
  const [revision = ""] = rest.split("/");
  if (["revision", "tree", "resolve"].includes(what) && !["main", hub.commit].includes(revision))
    return refuse(404, "RevisionNotFound");
  if (what === "refs") {
    const branch = { name: "main", ref: "refs/heads/main", targetCommit: hub.commit };
    return Response.json({ branches: [branch], tags: [], converts: [] });
  }
  if (what === "tree") return Response.json(Object.entries(model.files).map(treeEntry));
  if (what !== "resolve")
    return Response.json({ id: name, sha: hub.commit, siblings: [], ...countsOf(model) });
  const content = model.files[rest.slice(revision.length + 1)];
  return content === undefined ? refuse(404, "EntryNotFound") : send(hub, request, bytesOf(content));
}

function countsOf({ parameters }: FakeModel) {
  return parameters === undefined
    ? {}
    : { safetensors: { parameters: { BF16: parameters }, total: parameters } };
}

function search(models: Record<string, FakeModel>, text: string): Response {
  return Response.json(
    Object.keys(models)
      .filter((id) => id.toLowerCase().includes(text.toLowerCase().slice(0, 4)))
      .map((id) => ({ id, modelId: id })),
  );
}

function treeEntry([path, content]: [string, Uint8Array | string]) {
  const bytes = bytesOf(content);
  const oid = new Bun.CryptoHasher("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
  const sha256 = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  const lfs = { oid: sha256, size: bytes.length, pointerSize: 130 };
  return { type: "file", path, size: bytes.length, oid, ...(bytes.length > largeBytes ? { lfs } : {}) };
}

function send(hub: FakeHub, request: Request, bytes: Uint8Array<ArrayBuffer>): Response {
  const range = /^bytes=(\d+)-$/.exec(request.headers.get("range") ?? "")?.[1];
  const start = range === undefined || hub.ignoresRanges ? 0 : Number(range);
  const part = bytes.subarray(start);
  const headers = {
    etag: '"x"',
    "x-repo-commit": hub.commit,
    "content-length": String(part.length),
    "accept-ranges": "bytes",
    ...(start > 0 ? { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
  };
  const status = start > 0 ? 206 : 200;
  if (hub.pieceMs === 0 || part.length <= largeBytes) return new Response(part, { status, headers });
  return new Response(slowly(hub, part), { status, headers });
}

function slowly(hub: FakeHub, bytes: Uint8Array): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    async pull(controller) {
      if (hub.pieceMs > 0) await Bun.sleep(hub.pieceMs);
      controller.enqueue(bytes.subarray(at, (at += pieceBytes)));
      if (at >= bytes.length) controller.close();
    },
  });
}

function bytesOf(content: Uint8Array | string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(typeof content === "string" ? Buffer.from(content) : content);
}

function refuse(status: number, code: string): Response {
  return Response.json({ error: code }, { status, headers: { "x-error-code": code } });
}
