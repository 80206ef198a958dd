export interface ByteReceiver {
  /** Nothing more comes while a promise that it returned is open. */
  bytes(bytes: Uint8Array): Promise<unknown> | void;
  /** Once; with the error that ended the bytes early. */
  end(error?: unknown): void;
}

/** Bytes that come by themselves. A stream that is asked for each part costs a token more than what is done with it. */
export interface ByteSource {
  /** Once. */
  start(receiver: ByteReceiver): void;
  /** Nobody wants the rest: nothing comes any more, no end either. */
  cancel(): void;
}

export function sourceOf(stream: ReadableStream<Uint8Array>): ByteSource {
  const reader = stream.getReader();
  let isCancelled = false;
  const readAll = async (receiver: ByteReceiver): Promise<void> => {
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (isCancelled || done) break;
        await receiver.bytes(value);
      }
    } catch (error) {
      if (!isCancelled) receiver.end(error ?? cancelled());
      return;
    }
    if (!isCancelled) receiver.end();
  };
  return {
    start: (receiver) => void readAll(receiver),
    cancel() {
      isCancelled = true;
      reader.cancel().catch(() => {});
    },
  };
}

/** The error of a stream whose reader has left. */
export function cancelled(): Error {
  return new Error("the stream was cancelled");
}

/** All bytes; null when there are more than `maxBytes`, and the rest is not waited for then. */
export function collectBytes(source: ByteSource, maxBytes: number): Promise<Uint8Array | null> {
  return new Promise((resolve, reject) => {
    const parts: Uint8Array[] = [];
    let length = 0;
    source.start({
      bytes(bytes) {
        parts.push(bytes);
        length += bytes.length;
        if (length <= maxBytes) return;
        source.cancel();
        resolve(null);
      },
      end: (error) => {
        if (error === undefined) resolve(concatenate(parts, length));
        else reject(error);
      },
    });
  });
}

/** Parts that may wait for a reader that is slower. */
const maxWaitingParts = 8;

/** The other way round. The source is started at once. */
export function streamOf(source: ByteSource): ReadableStream<Uint8Array> {
  let onRoom: (() => void) | undefined;
  let isCancelled = false;
  const start = (controller: ReadableStreamDefaultController<Uint8Array>) =>
    source.start({
      bytes(bytes) {
        if (isCancelled) return;
        controller.enqueue(bytes);
        if ((controller.desiredSize ?? 0) > 0) return;
        return new Promise<void>((resolve) => (onRoom = resolve));
      },
      end(error) {
        if (isCancelled) return;
        if (error === undefined) controller.close();
        else controller.error(error);
      },
    });
  const pull = () => onRoom?.();
  const cancel = () => {
    isCancelled = true;
    source.cancel();
  };
  return new ReadableStream<Uint8Array>({ start, pull, cancel }, { highWaterMark: maxWaitingParts });
}

export function concatenate(parts: Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1) return parts[0] as Uint8Array;
  const whole = new Uint8Array(length);
  let position = 0;
  for (const part of parts) {
    whole.set(part, position);
    position += part.length;
  }
  return whole;
}
