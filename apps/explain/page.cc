#include "explain/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "explain/drawing.h"
#include "explain/json_text.h"
#include "explain/names.h"

namespace explaining {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Finding;
using rpcrdma::explain::StepFact;

void Page::add(const CallFact& call, const ConnectionFact& connection, std::int64_t start) {
  JsonObject row;
  const auto& first = call.has_call ? call.call.first : call.reply.first;
  row.seconds("t", first.time - start)
      .number("k", connection.number)
      .text("c", fmt::format("#{} {}", connection.number,
                             to_string(connection.sides[call.caller].endpoint)))
      .text("o", to_string(connection.sides[1 - call.caller].endpoint))
      .text("x", fmt::format("{:08x}", call.xid))
      .text("n", (call.is_backward ? "backward " : "") + call_name(call))
      .text("s", status_text(call))
      .boolean("g", has_succeeded(call))
      .boolean("u", !call.has_reply)
      .seconds("d", call.duration())
      .text("f", fmt::format("{} / {}", to_string(call.call_form), to_string(call.reply_form)));
  std::string steps = "[";
  for (const StepFact& step : call.steps) {
    JsonObject each;
    each.seconds("t", step.first.time - start)
        .number("r", step.side == call.caller ? 1 : 0)
        .text("l", step_text(step, call))
        .text("p", packets_text(step));
    if (steps.size() > 1) steps += ',';
    steps += each.str();
  }
  row.raw("l", steps + "]");
  std::string notes = "[";
  for (const std::string& note : notes_of(call))
    notes += (notes.size() > 1 ? "," : "") + json_string(note);
  row.raw("w", notes + "]");
  rows_.emplace(
      std::pair{has_succeeded(call) ? 0 : 1, call.has_reply ? call.duration() : INT64_MAX},
      row.str());
  if (rows_.size() > calls_max_) {
    rows_.erase(rows_.begin());
    ++left_out_;
  }
}

void Page::add(const Finding& finding, const ConnectionFact& connection) {
  constexpr std::size_t kGroupsMax = 500;
  const std::tuple key{finding.connection, finding.side, finding.rule};
  const auto at = groups_.find(key);
  if (at != groups_.end()) {
    ++at->second.count;
  } else if (groups_.size() < kGroupsMax) {
    groups_.emplace(key, Group{finding, to_string(connection.sides[finding.side].endpoint)});
  } else {
    ++groups_left_out_;
  }
}

namespace {

// A "<" might end the script, or begin a comment in it.
std::string for_script(const std::string& text) {
  std::string out;
  for (const char each : text) {
    if (each == '<') {
      out += "\\u003c";
    } else {
      out += each;
    }
  }
  return out;
}

constexpr const char* kPageHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>rpcrdma explain</title>
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
body{font:14px sans-serif;margin:1em;color:#24292f;background:#fff}
table{border-collapse:collapse;width:100%;margin-bottom:1.5em}
td,th{padding:2px 8px;text-align:left;border-bottom:1px solid #d0d7de;vertical-align:top}
td{font-variant-numeric:tabular-nums}
tr.call,tr.found{cursor:pointer}tr.call:hover,tr.found:hover,tr.call:focus{background:#f6f8fa}
tr.bad td{color:#cf222e}input{width:24em;max-width:90%}h2{font-size:1.2em}
td.num,th.num{text-align:right;white-space:nowrap}td.word{white-space:nowrap}
tr.ladder td{background:#f6f8fa;overflow-x:auto;max-width:0}
svg{display:block}svg text{font:12px sans-serif}
.note{margin:2px 0 2px 150px;max-width:50em;overflow-wrap:anywhere}
</style></head><body><h1>rpcrdma explain</h1><p id="about"></p>
<div id="broken"><h2>Rules</h2><table><tbody id="rules"></tbody></table></div>
<h2>Calls</h2><p><label>Show calls with
<input id="filter" placeholder="a word: an XID, a procedure, a status"></label></p>
<table><thead><tr><th class="num">time</th><th>caller</th><th>XID</th><th>call</th>
<th>form / reply</th><th class="num">duration</th><th>status</th></tr></thead>
<tbody id="rows"></tbody></table><p id="more"></p>
<script>
)";
constexpr const char* kLadderScript = R"(
const el=(n,t,c)=>{
  const e=document.createElement(n);
  if(t!==undefined)e.textContent=t;
  if(c)e.className=c;
  return e};
const svg=(n,a,t)=>{
  const e=document.createElementNS('http://www.w3.org/2000/svg',n);
  for(const k in a)e.setAttribute(k,a[k]);
  if(t!==undefined)e.textContent=t;
  return e};
const by=id=>document.getElementById(id);
function ladder(call){
  const L=150,R=690,h=26*call.l.length+50;
  const s=svg('svg',{width:900,height:h,role:'img'});
  s.append(svg('text',{x:L,y:16,'text-anchor':'middle'},call.c));
  s.append(svg('text',{x:R,y:16,'text-anchor':'middle'},call.o));
  let y=24;
  const top=y;
  for(const step of call.l){
    y+=26;
    const a=step.r?L:R,b=step.r?R:L,d=step.r?-6:6;
    const color=/Read|Write/.test(step.l)?'#1f6feb':'#24292f';
    s.append(svg('line',{x1:a,y1:y,x2:b,y2:y,stroke:color}));
    s.append(svg('path',{d:`M${b},${y} l${d},-4 l0,8 z`,fill:color}));
    s.append(svg('text',{x:(L+R)/2,y:y-5,'text-anchor':'middle'},step.l));
    s.append(svg('text',{x:L-10,y:y+4,'text-anchor':'end'},step.t.toFixed(6)));
    s.append(svg('text',{x:R+10,y:y+4},step.p))}
  for(const x of [L,R])s.append(svg('line',{x1:x,y1:top,x2:x,y2:y+12,stroke:'#8c959f'}));
  return s;
}
)";
constexpr const char* kRowsScript = R"(const rows=by('rows'),filter=by('filter'),shownMax=2000;
function toggle(row,call){
  const next=row.nextSibling;
  if(next&&next.className==='ladder'){next.remove();return}
  const more=el('tr',undefined,'ladder'),cell=el('td');
  cell.colSpan=7;
  cell.append(ladder(call));
  for(const w of call.w)cell.append(el('p',w,'note'));
  more.append(cell);
  row.after(more);
}
function act(row,what){
  row.tabIndex=0;
  row.onclick=what;
  row.onkeydown=e=>{if(e.key==='Enter')what()}}
function show(){
  rows.textContent='';
  const word=filter.value.toLowerCase();
  let count=0,shown=0;
  for(const call of calls){
    const words=(call.x+' '+call.n+' '+call.s+' '+call.c).toLowerCase();
    if(word&&!words.includes(word))continue;
    if(++count>shownMax)continue;
    ++shown;
    const row=el('tr',undefined,'call'+(call.g?'':' bad'));
    row.call=call;
    row.append(el('td',call.t.toFixed(6),'num'),el('td',call.c),el('td',call.x));
    row.append(el('td',call.n),el('td',call.f,'word'));
    row.append(el('td',call.u?'':(call.d*1000).toFixed(3)+' ms','num'),el('td',call.s));
    act(row,()=>toggle(row,call));
    rows.append(row)}
  by('more').textContent=shown<count?`${count-shown} more: a word above narrows them`:''}
function openCall(xid,connection){
  const is=call=>call.x===xid&&(!connection||call.k===+connection);
  const find=()=>[...rows.children].find(each=>each.call&&is(each.call));
  let row=find();
  if(!row){filter.value=xid;show();row=find()}
  if(!row){filter.value='';show();return}
  if(!row.nextSibling||row.nextSibling.className!=='ladder')toggle(row,row.call);
  row.scrollIntoView({block:"nearest"})}
function openNamed(){
  const [,xid,connection]=/^#call=([0-9a-f]+)(?:@(\d+))?$/.exec(location.hash)||[];
  if(xid)openCall(xid.padStart(8,'0'),connection)}
filter.oninput=show;
show();
for(const rule of rules){
  const row=el('tr',undefined,(rule.v==='error'?'bad ':'')+(rule.x?'found':''));
  row.append(el('td',rule.v),el('td',rule.i,'word'),el('td','packet '+rule.p,'word'));
  row.append(el('td','#'+rule.k+' '+rule.s),el('td',rule.n>1?rule.n+' times':'','word'));
  row.append(el('td',rule.x),el('td',rule.t));
  if(rule.x)act(row,()=>openCall(rule.x,rule.k));
  by('rules').append(row)}
if(!rules.length)by('broken').remove();
by('about').textContent=about;
window.onhashchange=openNamed;
openNamed();
</script></body></html>
)";

}  // namespace

std::string Page::text(std::uint64_t filtered) const {
  std::string out = kPageHead;
  out += "const calls=[";
  bool is_first = true;
  for (auto at = rows_.rbegin(); at != rows_.rend(); ++at) {
    if (!is_first) out += ",\n";
    is_first = false;
    out += for_script(at->second);
  }
  out += "];\nconst rules=[";
  std::vector<const Group*> groups;
  groups.reserve(groups_.size());
  for (const auto& [key, group] : groups_) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const Group* a, const Group* b) {
    const auto rank = [](const Group& of) {
      return std::pair{-static_cast<int>(of.first.rule->severity), of.first.where.packet};
    };
    return rank(*a) < rank(*b);
  });
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Finding& finding = groups[i]->first;
    JsonObject object;
    object.text("v", to_string(finding.rule->severity))
        .text("i", finding.rule->id)
        .number("p", finding.where.packet)
        .number("k", finding.connection)
        .text("s", groups[i]->side)
        .number("n", groups[i]->count)
        .text("x", finding.xid ? fmt::format("{:08x}", *finding.xid) : "")
        .text("t",
              fmt::format("{} {}: {}{}{}", finding.rule->document, finding.rule->section,
                          finding.rule->text, finding.detail.empty() ? "" : "; ", finding.detail));
    out += (i == 0 ? "" : ",\n") + for_script(object.str());
  }
  std::string about = fmt::format("{} calls, the faulty and the slowest first", rows_.size());
  if (left_out_ != 0) about += fmt::format("; {} quicker ones are left out", left_out_);
  if (filtered != 0) about += fmt::format("; the filters left {} out", filtered);
  if (groups_left_out_ != 0) about += fmt::format("; {} findings are left out", groups_left_out_);
  return out + "];\nconst about=" + for_script(json_string(about)) + ";\n" + kLadderScript +
         kRowsScript;
}

}  // namespace explaining
