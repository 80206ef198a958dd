/** Lines of a failing Python program that only say that something else failed. */
const followUps = [
  /engine core initialization failed/i,
  /EngineCore failed to start/i,
  /Engine process failed to start/i,
  /engine core proc .* died/i,
  /see (the )?(root cause|stack trace) above/i,
  /EngineDeadError/,
  /raise (RuntimeError|ValueError)\(/,
  /resource_tracker/,
];

const errorLine = /(?:^|\s)((?:[A-Za-z_][\w.]*)?(?:Error|Exception|Interrupt|NotFound|OutOfMemory)\b: .+)$/;
const plainLines = [/(?:^|\s)((?:error|fatal): .+)$/i, /(No module named [\w.']+)/, /(Killed)$/];
/** An error whose own line only announces the next one, as pydantic's does. */
const announcement = /(?:\d+ validation errors? for \S+|:)$/;
const prefix =
  /^(?:\([^)]*\)\s*)*(?:(?:ERROR|CRITICAL|WARNING|INFO)\s+[\d-]+\s+[\d:.]+\s+(?:\[[^\]]*\]\s*)?)?/;
const maxLength = 400;

/**
 * Watches the lines of a failing program and keeps the one that says what really went wrong: the first line that names
 * an error, follow-up errors left out. Workers of the model server print it far above the last trace.
 */
export class CauseFinder {
  #named: string | undefined;
  /** The next line says what the named error is. */
  #isAnnounced = false;
  #plain: string | undefined;
  #last: string | undefined;

  see(line: string): void {
    const text = line.replace(prefix, "").trimEnd();
    if (text.trim() === "") return;
    this.#last = text;
    if (followUps.some((pattern) => pattern.test(text))) return;
    if (this.#named !== undefined && this.#isAnnounced) {
      this.#named = `${this.#named.replace(/:$/, "")}: ${text.trim()}`;
      this.#isAnnounced = false;
    }
    if (this.#named === undefined) {
      this.#named = errorLine.exec(text)?.[1];
      this.#isAnnounced = this.#named !== undefined && announcement.test(this.#named);
    }
    this.#plain ??= plainLines.map((pattern) => pattern.exec(text)?.[1]).find((found) => found !== undefined);
  }

  /** The cause, or the last line when none names an error. */
  cause(): string | undefined {
    return this.error() ?? this.#last?.slice(0, maxLength);
  }

  /** The line that names an error. */
  error(): string | undefined {
    return (this.#named ?? this.#plain)?.slice(0, maxLength);
  }
}
