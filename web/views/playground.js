// Embeddings and scores of texts: what is near to what.
import {html, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {count, plural} from '../lib/format.js';
import {notifyError} from '../lib/notices.js';
import {useModels} from '../lib/poll.js';
import {Field} from '../components/field.js';

const MAX_TEXTS = 50;
const EXAMPLES = ['The cat sleeps on the sofa.', 'A kitten naps on the couch.', 'Stock prices fell on Monday.', 'Markets lost ground this week.'];
const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');
// Why these lines are not asked about; '' if they are.
const faultOf = (lines) => (lines.length > MAX_TEXTS ? `${count(lines.length)} lines, at most ${MAX_TEXTS}: remove some.` : '');

// Cosine; the vectors need not have length 1.
function similarity(a, b) {
  let dot = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? dot / Math.sqrt(aa * bb) : 0;
}

// The ground grows with the value, and the figure stands in every cell, so that colour alone says nothing.
function Matrix({texts, vectors}) {
  const shade = (value) => `color-mix(in srgb, var(--accent-ground) ${Math.round(Math.max(0, value) * 60)}%, transparent)`;
  return html`
    <div class="table-scroll" tabindex="0" role="region" aria-label="Similarity matrix">
      <table class="matrix">
        <caption class="visually-hidden">Cosine similarity of each pair of texts</caption>
        <thead><tr><th scope="col"><span class="visually-hidden">Text</span></th>${texts.map((text, i) => html`<th scope="col" class="number" title=${text}>${i + 1}</th>`)}</tr></thead>
        <tbody>
          ${texts.map((text, row) => html`
            <tr><th scope="row" dir="auto">${row + 1}. ${text}</th>
              ${vectors.map((vector) => {
                const value = similarity(vectors[row], vector);
                return html`<td class="number" style=${{background: shade(value)}}>${value.toFixed(2)}</td>`;
              })}</tr>`)}
        </tbody>
      </table>
    </div>`;
}

function ModelPicker({all, value, onChange}) {
  return html`
    <${Field} title="Model">${(attributes) => html`
      <select ...${attributes} value=${value} onChange=${(event) => onChange(event.target.value)}>
        ${all.map((model) => html`<option value=${model.id}>${model.id}</option>`)}
      </select>`}<//>`;
}

function Embeddings({all}) {
  const [model, setModel] = useState(all[0].id);
  const [text, setText] = useState(EXAMPLES.join('\n'));
  const [result, setResult] = useState(null);
  const [busy, setBusy] = useState(false);
  const texts = linesOf(text), fault = faultOf(texts);
  const submit = async (event) => {
    event.preventDefault();
    if (texts.length === 0 || fault !== '') return;
    setBusy(true);
    try {
      const answer = await request('v1/embeddings', {method: 'POST', body: {model, input: texts}});
      setResult({texts, vectors: answer.data.map((each) => each.embedding), tokens: answer.usage?.prompt_tokens});
    } catch (error) {
      notifyError(error);
    }
    setBusy(false);
  };
  return html`
    <section class="card stack" aria-labelledby="similarity">
      <h2 id="similarity">Similarity</h2>
      <p class="hint">How near texts are to each other in meaning: 1.00 is the same, 0.00 has nothing in common.</p>
      <form class="stack" onSubmit=${submit}>
        <${ModelPicker} all=${all} value=${model} onChange=${setModel} />
        <${Field} title="Texts, one per line" hint=${`Up to ${MAX_TEXTS} lines.`} error=${fault}>${(attributes) => html`
          <textarea ...${attributes} dir="auto" rows="5" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>`}<//>
        <div class="row end"><button class="primary" disabled=${busy || fault !== ''}>${busy ? 'Computing…' : 'Compare'}</button></div>
      </form>
      ${result && html`
        <${Matrix} ...${result} />
        <p class="hint">Cosine similarity of vectors with ${count(result.vectors[0].length)} numbers each, made of ${plural(result.tokens, 'token')}.</p>`}
    </section>`;
}

function Rerank({all}) {
  const [model, setModel] = useState(all[0].id);
  const [query, setQuery] = useState('Where does the cat sleep?');
  const [text, setText] = useState(EXAMPLES.join('\n'));
  const [result, setResult] = useState(null);
  const [busy, setBusy] = useState(false);
  const documents = linesOf(text), fault = faultOf(documents);
  const submit = async (event) => {
    event.preventDefault();
    if (documents.length === 0 || fault !== '' || query.trim() === '') return;
    setBusy(true);
    try {
      const answer = await request('v1/rerank', {method: 'POST', body: {model, query, documents}});
      setResult(answer.results.map(({index, relevance_score: score}) => ({text: documents[index], score})));
    } catch (error) {
      notifyError(error);
    }
    setBusy(false);
  };
  return html`
    <section class="card stack" aria-labelledby="ranking">
      <h2 id="ranking">Ranking</h2>
      <p class="hint">Which documents answer a question, the best first. A higher score is better.</p>
      <form class="stack" onSubmit=${submit}>
        <${ModelPicker} all=${all} value=${model} onChange=${setModel} />
        <${Field} title="Question">${(attributes) => html`
          <input ...${attributes} dir="auto" value=${query} onInput=${(event) => setQuery(event.target.value)} />`}<//>
        <${Field} title="Documents, one per line" hint=${`Up to ${MAX_TEXTS} lines.`} error=${fault}>${(attributes) => html`
          <textarea ...${attributes} dir="auto" rows="5" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>`}<//>
        <div class="row end"><button class="primary" disabled=${busy || fault !== ''}>${busy ? 'Computing…' : 'Rank'}</button></div>
      </form>
      ${result && html`
        <div class="table-scroll" tabindex="0" role="region" aria-label="Ranked documents">
          <table><thead><tr><th scope="col">Document</th><th scope="col" class="number">Score</th></tr></thead>
            <tbody>${result.map((each) => html`
              <tr><td dir="auto">${each.text}</td><td class="number">${each.score.toFixed(4)}</td></tr>`)}</tbody></table>
        </div>`}
    </section>`;
}

export function PlaygroundView() {
  const {value: all, failure} = useModels();
  const able = (task) => (all ?? []).filter((model) => model.tasks?.includes(task));
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Playground</h1><p>Compare short texts by their meaning. Nothing is stored.</p></div>
      ${failure && html`<p class="notice bad" role="alert">The models could not be fetched: ${failure.message}.</p>`}
      ${all === null && !failure && html`<p class="empty">Loading…</p>`}
      ${all !== null && able('embed').length + able('rerank').length === 0 && html`
        <p class="empty">No model here compares or ranks texts. Start the server with one that does, for example
          ${' '}<code>tutti serve all-minilm-l6-v2</code>.</p>`}
      ${able('embed').length > 0 && html`<${Embeddings} all=${able('embed')} />`}
      ${able('rerank').length > 0 && html`<${Rerank} all=${able('rerank')} />`}
    </div></div>`;
}
