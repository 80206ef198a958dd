import { appendFileSync } from "node:fs";

export const logLevels = ["debug", "info", "warning", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface Logger {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warning(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

export interface LogTarget {
  level: LogLevel;
  /** Lines at or above `level` go to stderr unless this is false. */
  stderr?: boolean;
  /** Every line is appended here, whatever the level. */
  file?: string;
}

/** A message that comes again within it goes to the file only, so that a disk that is full says so once in a while. */
const repeatMs = 10_000;

/** One line per event: `12:00:01 warning store   message  key=value`. */
export function createLogger(
  room: string,
  target: LogTarget,
  now: () => number = () => performance.now(),
): Logger {
  const threshold = logLevels.indexOf(target.level);
  const shown = new Map<string, { at: number; hidden: number }>();
  /** Of warnings and errors, how many were hidden since the last one shown; undefined when this one is hidden. */
  const hiddenBefore = (message: string): number | undefined => {
    const last = shown.get(message);
    if (last !== undefined && now() - last.at < repeatMs) {
      last.hidden += 1;
      return undefined;
    }
    shown.set(message, { at: now(), hidden: 0 });
    return last?.hidden ?? 0;
  };
  const write = (level: LogLevel, message: string, fields: Record<string, unknown> = {}) => {
    const line = formatLine(level, room, message, fields);
    if (target.file !== undefined) appendQuietly(target.file, line);
    if (target.stderr === false || logLevels.indexOf(level) < threshold) return;
    if (level === "debug" || level === "info") return void process.stderr.write(line);
    const hidden = hiddenBefore(message);
    if (hidden === 0) process.stderr.write(line);
    else if (hidden !== undefined)
      process.stderr.write(formatLine(level, room, message, { ...fields, not_shown: hidden }));
  };
  return {
    debug: (message, fields) => write("debug", message, fields),
    info: (message, fields) => write("info", message, fields),
    warning: (message, fields) => write("warning", message, fields),
    error: (message, fields) => write("error", message, fields),
  };
}

export const silentLogger: Logger = { debug() {}, info() {}, warning() {}, error() {} };

function formatLine(level: LogLevel, room: string, message: string, fields: Record<string, unknown>): string {
  const time = new Date().toISOString().slice(11, 23);
  const pairs = Object.entries(fields).map(
    ([key, value]) => ` ${key}=${typeof value === "string" ? printable(value) : JSON.stringify(value)}`,
  );
  return `${time} ${level.padEnd(7)} ${room.padEnd(8)} ${message}${pairs.join("")}\n`;
}

/** What others sent may neither steer a terminal nor look like a line of the log's own. */
function printable(text: string): string {
  return text
    .replace(/[^\P{Cc}\n\t]/gu, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`)
    .replaceAll("\n", "\n    ");
}

function appendQuietly(file: string, line: string): void {
  try {
    appendFileSync(file, line);
  } catch {
    // A log file that cannot be written must never stop a run; stderr still has the line.
  }
}
