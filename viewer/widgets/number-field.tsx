interface NumberFieldProps {
  readonly label: string;
  readonly value: number;
  readonly max: number;
  readonly onChange: (value: number) => void;
}

/** A whole number from 0 to `max`; anything else is ignored. */
export function NumberField({ label, value, max, onChange }: NumberFieldProps) {
  return (
    <label class="number-field">
      {label}
      <input
        type="number"
        min={0}
        max={max}
        value={value}
        onInput={(event) => {
          const next = Number(event.currentTarget.value);
          if (Number.isInteger(next) && next >= 0 && next <= max) onChange(next);
        }}
      />
    </label>
  );
}
