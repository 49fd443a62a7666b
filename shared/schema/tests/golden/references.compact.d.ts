// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.
declare module "rewind:tools" {
type Args<A>={} extends A?[args?:A]:[args:A]
interface ClosedTool<A,R=any>{(...a:Args<A>):Promise<R>;raw(...a:Args<A>):Promise<McpResult>} // raw: the whole MCP result
type Tool<A,R=any>=ClosedTool<A|A&{[k:string]:unknown},R>
interface McpResult{content:{type:string;text?:string;[k:string]:unknown}[];structuredContent?:any;isError?:boolean;_meta?:any}
export class ToolError extends Error{private constructor();code:"invalid_arguments"|"tool_failed"|"invalid_result"|"timeout"|"unavailable"|"outcome_unknown"|"rejected"|"credentials"|"refused"|"too_large"|"cancelled"|"not_recorded";tool:string;retryable:boolean;details?:any;key:string}
export function sleep(duration:number|string):Promise<void> // ms, or "90s", "12h", "10d"
type Promise_2=string
type LabelRef={name:string,[k:string]:any}
type Here=boolean
type Label=LabelRef
type A1b=number
type LabelRef_2=string
type Args_2={x?:string,[k:string]:unknown}
export const server:{
builtin_name:Tool<{p?:Promise_2}>
local:Tool<{again?:LabelRef,by_anchor?:Here,label?:LabelRef,property?:Label,slash?:A1b}>
other_definition:Tool<{label?:LabelRef_2}>
remote:Tool<{gone?:unknown /* $ref to nothing */,there?:unknown /* remote $ref */}>
same_definition:Tool<{label?:LabelRef}>
whole_root:ClosedTool<Args_2>
};
export const host:{};
}
