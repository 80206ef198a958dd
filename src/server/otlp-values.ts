import { exactNumber, numberText } from "../protocol/json.ts";
import type { Attributes, AttributeValue } from "../protocol/types.ts";
import { ProtobufError, type ProtobufReader } from "./protobuf-reader.ts";

const maxDepth = 32;

/** Attributes as spans hold them: what those cannot hold (nested values, mixed lists, nothing) becomes JSON text. */
export class OtlpAttributes {
  readonly #entries: [string, AttributeValue][] = [];

  /** Takes one `KeyValue`. */
  add(reader: ProtobufReader): void {
    const { key, value } = readKeyValue(reader, 0);
    this.#entries.push([key, isAttribute(value) ? value : JSON.stringify(plain(value))]);
  }

  get values(): Attributes {
    return Object.fromEntries(this.#entries);
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }
}

/** Integers beyond 2^53 and integral floats keep their spelling as raw JSON numbers. */
type OtlpValue = unknown;

function readKeyValue(reader: ProtobufReader, depth: number): { key: string; value: OtlpValue } {
  let key = "";
  let value: OtlpValue = null;
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) key = reader.text();
    else if (field === 2) value = readValue(reader.message(), depth);
    else reader.skip();
  }
  return { key, value };
}

function readValue(reader: ProtobufReader, depth: number): OtlpValue {
  if (depth > maxDepth) throw new ProtobufError(`a value is nested more than ${maxDepth} deep`);
  let value: OtlpValue = null;
  for (let field = reader.next(); field !== null; field = reader.next()) {
    switch (field) {
      case 1:
        value = reader.text();
        break;
      case 2:
        value = reader.unsigned() !== 0n;
        break;
      case 3:
        value = integer(reader.signed());
        break;
      case 4:
        value = float(reader.double());
        break;
      case 5:
        value = readList(reader.message(), depth + 1);
        break;
      case 6:
        value = readMap(reader.message(), depth + 1);
        break;
      case 7:
        value = reader.bytes().toHex();
        break;
      default:
        reader.skip();
    }
  }
  return value;
}

function readList(reader: ProtobufReader, depth: number): OtlpValue[] {
  const values: OtlpValue[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) values.push(readValue(reader.message(), depth));
    else reader.skip();
  }
  return values;
}

function readMap(reader: ProtobufReader, depth: number): Map<string, OtlpValue> {
  const values = new Map<string, OtlpValue>();
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field !== 1) {
      reader.skip();
      continue;
    }
    const { key, value } = readKeyValue(reader.message(), depth);
    values.set(key, value);
  }
  return values;
}

function integer(value: bigint): unknown {
  return Number.isSafeInteger(Number(value)) ? Number(value) : exactNumber(String(value));
}

/** `1.0` stays a float. JSON has no NaN and no infinity: these become text. */
function float(value: number): unknown {
  if (!Number.isFinite(value)) return String(value);
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? exactNumber(`${value}.0`) : value;
}

function isAttribute(value: OtlpValue): value is AttributeValue {
  if (!Array.isArray(value)) return kindOf(value) !== null;
  const kinds = new Set(value.map(kindOf));
  return kinds.size <= 1 && !kinds.has(null);
}

/** Null for what is no attribute by itself. */
function kindOf(value: OtlpValue): string | null {
  if (typeof value === "string" || typeof value === "boolean") return typeof value;
  return numberText(value) === undefined ? null : "number";
}

function plain(value: OtlpValue): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries([...value].map(([key, item]) => [key, plain(item)]));
}
