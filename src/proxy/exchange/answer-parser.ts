import { HTTPParser } from "http-parser-js";
import { concatenate } from "../../chat/byte-source.ts";

HTTPParser.encoding = "latin1";
// It counts a read that ends an answer as a head, however much of it was body: limited below instead.
HTTPParser.maxHeaderSize = Number.POSITIVE_INFINITY;
/** Of a head, of a chunk's length, or of what comes after the last chunk. */
const maxFramingBytes = 1024 * 1024;

export interface AnswerHead {
  status: number;
  headers: Headers;
  /** Another request may follow on the connection. */
  keepsAlive: boolean;
}

/** Members of the parser that its types do not show. */
interface ParserState {
  state: string;
  /** What has come of a line. */
  line: string;
  isChunked: boolean;
  /** Left of the body, or of its chunk; null when that is not known. */
  body_bytes: number | null;
}

/** Tells the parser so, whatever the head says. */
const hasNoBody = 1;

/** Reads HTTP/1.1 answers, one after another; stricter than the parser below it, which takes what is broken for an end. */
export class AnswerParser {
  readonly #parser = new HTTPParser(HTTPParser.RESPONSE);
  readonly #state = this.#parser as unknown as ParserState;
  readonly #onHead: (head: AnswerHead) => void;
  #hasHead = false;
  #isWhole = false;
  #hasMore = false;
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  /** Since the last byte of a body. */
  #framingBytes = 0;

  constructor(onHead: (head: AnswerHead) => void) {
    this.#onHead = onHead;
    this.#parser[HTTPParser.kOnHeadersComplete] = ({ statusCode, headers, shouldKeepAlive }) =>
      this.#head(statusCode, headers, shouldKeepAlive);
    this.#parser[HTTPParser.kOnBody] = (bytes, _, length) => this.#body(bytes, length);
    this.#parser[HTTPParser.kOnMessageComplete] = () => this.#complete();
  }

  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** More has come than the answer: the connection is of no more use. */
  get hasMore(): boolean {
    return this.#hasMore || this.#state.state !== "RESPONSE_LINE" || this.#state.line !== "";
  }

  /** An error, if this is no answer; what came of a body until then is taken with `takeBody`. */
  read(bytes: Buffer): Error | null {
    const failure = this.#execute(bytes);
    if (this.#isWhole) {
      // What follows an answer is no part of it.
      this.#hasMore ||= failure !== null;
      return null;
    }
    if (failure !== null) return failure;
    this.#framingBytes = this.#pieceBytes > 0 ? 0 : this.#framingBytes + bytes.length;
    if (this.#framingBytes <= maxFramingBytes) return null;
    return new Error(`the answer has a head or the like of more than ${maxFramingBytes} bytes`);
  }

  /** Null when there is none. */
  takeBody(): Uint8Array | null {
    if (this.#pieceBytes === 0) return null;
    const body = concatenate(this.#pieces, this.#pieceBytes);
    this.#pieces = [];
    this.#pieceBytes = 0;
    return body;
  }

  /** The connection was closed, which ends an answer without a length. */
  end(): void {
    if (this.#hasHead) this.#parser.finish();
  }

  /** The next answer may come. */
  next(): void {
    this.#hasHead = this.#isWhole = this.#hasMore = false;
    this.#framingBytes = 0;
  }

  #execute(bytes: Buffer): Error | null {
    try {
      const parsed = this.#parser.execute(bytes);
      return parsed instanceof Error ? new Error("the answer is not HTTP/1.1", { cause: parsed }) : null;
    } catch (error) {
      return error as Error;
    }
  }

  /** Informational heads come before the answer's; after it, nothing has been asked for. */
  #head(status: number, fields: string[], keepsAlive: boolean): number | undefined {
    if (this.#isWhole) this.#hasMore = true;
    else if (status >= 200) this.#begin(status, fields, keepsAlive);
    else if (status === 101) throw new Error("the server changed to another protocol");
    return status < 200 || status === 204 || status === 304 ? hasNoBody : undefined;
  }

  #begin(status: number, fields: string[], keepsAlive: boolean): void {
    if (status > 599) throw new Error(`the answer's status is ${status}`);
    const headers = new Headers();
    for (let at = 0; at < fields.length; at += 2) headers.append(fields[at]!, fields[at + 1]!);
    const length = headers.get("content-length");
    const { isChunked, body_bytes } = this.#state;
    if (length !== null && (!/^(\d+)(, \1)*$/.test(length) || Number.isNaN(body_bytes))) {
      throw new Error(`the answer's content-length is ${length}`);
    }
    const coding = isChunked ? null : headers.get("transfer-encoding");
    if (coding !== null) throw new Error(`the answer's transfer-encoding is ${coding}`);
    this.#hasHead = true;
    this.#onHead({ status, headers, keepsAlive });
  }

  #body(bytes: Uint8Array, length: number): void {
    // By which the parser would go back, perhaps for ever.
    if (length < 0) throw badChunk();
    if (this.#isWhole) return;
    this.#pieces.push(bytes);
    this.#pieceBytes += bytes.length;
  }

  #complete(): void {
    // It takes whatever is no number for the last chunk.
    if (Number.isNaN(this.#state.body_bytes)) throw badChunk();
    this.#isWhole = this.#hasHead;
  }
}

function badChunk(): Error {
  return new Error("a chunk of the answer has no length");
}
