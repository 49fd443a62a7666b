declare module "rewind:tools" {
  /** A tool. It rejects with a `ToolError`. */
  export interface Tool<Args, Result = any> {
    (args: Args): Promise<Result>;
    /** The whole MCP result: all content blocks and `_meta`. */
    raw(args: Args): Promise<McpResult>;
  }

  /** A tool that needs no argument. */
  export interface OptionalTool<Args, Result = any> {
    (args?: Args): Promise<Result>;
    /** The whole MCP result: all content blocks and `_meta`. */
    raw(args?: Args): Promise<McpResult>;
  }

  /** Further members are allowed, in a literal and in a variable of any type. */
  export type Open<Args> = Args | (Args & { [key: string]: unknown });

  /** The result of a call as the MCP server sent it. */
  export interface McpResult {
    content: ContentBlock[];
    structuredContent?: any;
    isError?: boolean;
    _meta?: { [key: string]: unknown };
  }

  /** A block of content: text, image, audio, a resource or a link to one. */
  export interface ContentBlock {
    type: string;
    text?: string;
    /** Base64. */
    data?: string;
    mimeType?: string;
    uri?: string;
    resource?: { uri: string; mimeType?: string; text?: string; blob?: string };
    [key: string]: unknown;
  }

  /** What a failed call rejects with. An uncaught one fails the run. */
  export class ToolError extends Error {
    private constructor();
    readonly code:
      | "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown"
      | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded";
    /** `export.name` of the tool. */
    readonly tool: string;
    /** May the same call succeed later? */
    readonly retryable: boolean;
    readonly details?: any;
    /** The call's idempotency key. */
    readonly key: string;
  }

  /** Milliseconds, or a text such as `"90s"`, `"12h"`, `"10d"`. The run may sleep for days: it costs nothing. */
  export function sleep(duration: number | string): Promise<void>;

  export type Promise_2 = string;

  /** A label */
  export type LabelRef = {
    name: string;
    [key: string]: any;
  };

  export type Here = boolean;

  export type Label = LabelRef;

  export type A1b = number;

  export type LabelRef_2 = string;

  export type Args_2 = {
    x?: string;
    [key: string]: unknown;
  };

  export const server: {
    /** @observed 0 results: any, for there is no output schema */
    builtin_name: OptionalTool<Open<{
      p?: Promise_2;
    }>>;
    /** @observed 0 results: any, for there is no output schema */
    local: OptionalTool<Open<{
      again?: LabelRef;
      by_anchor?: Here;
      label?: LabelRef;
      property?: Label;
      slash?: A1b;
    }>>;
    /** @observed 0 results: any, for there is no output schema */
    other_definition: OptionalTool<Open<{
      label?: LabelRef_2;
    }>>;
    /** @observed 0 results: any, for there is no output schema */
    remote: OptionalTool<Open<{
      gone?: unknown /* $ref to nothing */;
      there?: unknown /* remote $ref */;
    }>>;
    /** @observed 0 results: any, for there is no output schema */
    same_definition: OptionalTool<Open<{
      label?: LabelRef;
    }>>;
    /** @observed 0 results: any, for there is no output schema */
    whole_root: OptionalTool<Args_2>;
  };

  export const host: {};
}
