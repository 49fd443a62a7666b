// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.
declare module "rewind:tools" {
type Args<A>={} extends A?[args?:A]:[args:A]
interface ClosedTool<A,R=any>{(...a:Args<A>):Promise<R>;raw(...a:Args<A>):Promise<McpResult>} // raw: the whole MCP result
type Tool<A,R=any>=ClosedTool<A|A&{[k:string]:unknown},R>
interface McpResult{content:{type:string;text?:string;[k:string]:unknown}[];structuredContent?:any;isError?:boolean;_meta?:any}
export class ToolError extends Error{private constructor();code:"invalid_arguments"|"tool_failed"|"invalid_result"|"timeout"|"unavailable"|"outcome_unknown"|"rejected"|"credentials"|"refused"|"too_large"|"cancelled"|"not_recorded";tool:string;retryable:boolean;details?:any;key:string}
export function sleep(duration:number|string):Promise<void> // ms, or "90s", "12h", "10d"
export const server:{
create_issue:ClosedTool<{title:string,at?:string,count?:number,labels?:string[],state?:"open"|"closed"}> // Create an issue
empty_properties:ClosedTool<{[k:string]:unknown}>
no_properties:ClosedTool<{[k:string]:unknown}>
no_schema_to_speak_of:ClosedTool<{[k:string]:unknown}>
nothing_allowed:ClosedTool<{[k:string]:never}>
undeclared_required:Tool<{id:unknown}>
};
export const host:{};
}
