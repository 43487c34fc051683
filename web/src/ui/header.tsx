import type { Overview } from '../engine';
import { count, duration, plural, visible } from '../format';
import type { Model } from '../model';
import type { Change, State } from '../state';
import type { Theme } from './theme';

interface Props {
  profile: Overview;
  model: Model;
  state: State;
  change: Change;
  theme: Theme;
  toggleTheme: () => void;
  showHelp: () => void;
}

export function Header({ profile, model, state, change, theme, toggleTheme, showHelp }: Props) {
  const { totals } = model;
  return (
    <header class="header">
      <div class="what">
        <h1 title={visible(profile.title, 1000)}>
          <bdi>{profile.title ? visible(profile.title, 120) : 'Profile'}</bdi>
        </h1>
        <p class="meta">
          <span>{started(profile.startMs)}</span>
          <span>{duration(profile.durationNs)}</span>
          {profile.frequency > 0 && <span>{profile.frequency} Hz</span>}
          <span class="selected" role="status">
            {totals && <>
              <strong>{duration(totals.chosen.time)}</strong> {state.measure === 'off' ? 'off the CPU' : 'of CPU'} in{' '}
              {totals.chosen.samples < totals.all.samples ? `${count(totals.chosen.samples)} of ` : ''}
              {plural(totals.all.samples, 'sample')}
            </>}
          </span>
        </p>
      </div>
      <div class="actions">
        <MeasureSwitch profile={profile} state={state} change={change} />
        <button class="icon" onClick={toggleTheme} aria-label={theme === 'dark' ? 'Light colours' : 'Dark colours'}
          title={theme === 'dark' ? 'Light colours' : 'Dark colours'}>
          {theme === 'dark' ? <Sun /> : <Moon />}
        </button>
        <button class="icon" onClick={showHelp} aria-label="Help" title="Help (?)">?</button>
      </div>
    </header>
  );
}

function MeasureSwitch({ profile, state, change }: Pick<Props, 'profile' | 'state' | 'change'>) {
  if (profile.measures.length < 2) return null;
  const choice = (measure: State['measure'], name: string) => (
    <button class="choice" aria-pressed={state.measure === measure} onClick={() => change({ measure, zoom: [] })}>
      {name}
    </button>
  );
  return (
    <div class="segmented" role="group" aria-label="Measure">
      {choice('cpu', 'CPU')}
      {choice('off', 'Off-CPU')}
    </div>
  );
}

function started(ms: number): string {
  return new Date(ms).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}

const Sun = () => (
  <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round">
    <circle cx="8" cy="8" r="3" />
    <path d="M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13" />
  </svg>
);

const Moon = () => (
  <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round">
    <path d="M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z" />
  </svg>
);
