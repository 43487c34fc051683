/**
 * Labels: keys, and values that are text or any bytes. Where one label set is made on top of another, its
 * values hide those of the same key.
 *
 * A key has at most 1,024 bytes, a value 64 KiB, a set 4,096 labels and about 250 KiB in all: what is over
 * that is refused (RangeError), not cut. Use few different keys: each is kept for the life of the process.
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
 * Calls `fn` with these labels in force, on top of those that are, and returns what it returns.
 *
 * They stay with all that `fn` starts: after each `await` of an async function, in timers, in callbacks.
 * Whatever else the thread does meanwhile has its own labels, or none.
 */
export function withLabels<R>(labels: Labels, fn: () => R): R;

/**
 * The same with a trace: its ids are in the OpenTelemetry thread record, and also labels `trace_id` and
 * `span_id` for readers of Custom Labels. Ids that are all zero mean that there is none.
 */
export function withTrace<R>(trace: Trace, labels: Labels, fn: () => R): R;

/**
 * A function that calls `fn` with exactly the labels that are in force now, whoever calls it: for pools,
 * queues, and emitters that were made elsewhere.
 */
export function bindLabels<This, Args extends unknown[], R>(
  fn: (this: This, ...args: Args) => R): (this: This, ...args: Args) => R;

/** The labels in force, as an observer would read them now. Values that are not UTF-8 are Buffers. */
export function currentLabels(): Map<string, string | Uint8Array>;

/**
 * Puts on display what this process is: attributes named as OpenTelemetry's semantic conventions have it
 * (`service.name`, `service.version`, `deployment.environment.name`…). What OTEL_RESOURCE_ATTRIBUTES and
 * OTEL_SERVICE_NAME say is there, too, where `resource` says nothing else. Once, at the start; another call
 * replaces it. The process's, not the thread's.
 */
export function publishContext(resource?: Readonly<Record<string, string | number | boolean>>): void;
