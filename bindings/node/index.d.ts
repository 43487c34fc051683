/**
 * Labels: keys, and values that are text or any bytes. If a label set extends another, its values hide
 * values of the same key.
 *
 * A key has at most 1,024 bytes, a value 64 KiB, a set 4,096 labels and about 250 KiB in total. Larger ones
 * are refused (RangeError), not cut. Use few different keys: each is kept for the life of the process.
 */
export type Labels = Readonly<Record<string, string | Uint8Array>> | ReadonlyMap<string, string | Uint8Array>;

/** The trace that work belongs to. A SpanContext of @opentelemetry/api is one. */
export interface Trace {
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /** As in W3C Trace Context; 1: sampled. */
  readonly traceFlags?: number;
}

/**
 * Calls `fn` with these labels in force, in addition to the current ones, and returns its result.
 *
 * The labels follow all work that `fn` starts: after each `await` of an async function, in timers, in
 * callbacks. Unrelated work of the thread has its own labels, or none.
 */
export function withLabels<R>(labels: Labels, fn: () => R): R;

/**
 * The same with a trace: its IDs are in the OpenTelemetry thread record, and also labels `trace_id` and
 * `span_id` for readers of Custom Labels. IDs of zeros mean no trace.
 */
export function withTrace<R>(trace: Trace, labels: Labels, fn: () => R): R;

/**
 * Returns a function that calls `fn` with exactly the labels that are in force now, from any caller: for
 * pools, queues, and emitters that were created elsewhere.
 */
export function bindLabels<This, Args extends unknown[], R>(
  fn: (this: This, ...args: Args) => R): (this: This, ...args: Args) => R;

/** The labels in force, as an observer would read them now. Values that are not UTF-8 are Buffers. */
export function currentLabels(): Map<string, string | Uint8Array>;

/**
 * Publishes the process context: attributes named by OpenTelemetry's semantic conventions
 * (`service.name`, `service.version`, `deployment.environment.name`…). Values of OTEL_RESOURCE_ATTRIBUTES and
 * OTEL_SERVICE_NAME are added for keys that `resource` does not set. Call it once, at the start; another call
 * replaces the context. The context belongs to the process, not to the thread.
 */
export function publishContext(resource?: Readonly<Record<string, string | number | boolean>>): void;
