import { CURVES } from './curves';
import { EventMark } from './marks';
import { Mounted } from './view';

const about = { ranks: [[0, 'rank 0']], silent: [], few: 8 };
const events: EventMark[] = [
  { kind: 'checkpoint', step: 741, time_s: 0, ranks: [0], text: 'checkpoint saved: /tmp/ck' },
  { kind: 'clip_norm', step: 750, time_s: 0, ranks: [0], text: 'gradient clipping released' }
];

function scene() {
  let tell: (content: object) => void = () => undefined;
  const root = document.createElement('div');
  const view: Mounted = CURVES.mount(root, {
    send: () => undefined,
    onMessage: heard => {
      tell = content => heard(content, []);
      return () => undefined;
    }
  });
  const said = () => [...root.querySelectorAll('.tdb-event')].map(one => one.textContent);
  const summary = () => root.querySelector('summary')!.textContent;
  const option = () => root.querySelector('.tdb-x')!.querySelector('option')!.text;
  return { view, tell: (content: object) => tell(content), said, summary, option };
}

test('steps are the optimizer’s own where it counts, and who counts is said', () => {
  const page = scene();
  page.tell({ kind: 'about', ...about, ahead: null });
  page.tell({ kind: 'events', events });
  expect(page.said()[1]).toBe('⛁ step 741: checkpoint saved: /tmp/ck');
  expect(page.summary()).toBe('Events (2), steps since the attach');
  expect(page.option()).toBe('step since the attach');

  page.tell({ kind: 'about', ...about, ahead: 628 }); // it becomes known
  expect(page.said()).toEqual(['⊓ step 1,378: gradient clipping released', '⛁ step 1,369: checkpoint saved: /tmp/ck']);
  expect(page.summary()).toBe('Events (2)');
  expect(page.option()).toBe('step');
  page.view.dispose();
});
